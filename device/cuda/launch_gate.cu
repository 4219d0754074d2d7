#include "device/cuda/launch_gate.h"

namespace lcab::cuda {
namespace {

__device__ unsigned long long Now() {
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__global__ void HoldKernel(const volatile uint32_t* opened, uint32_t closed,
                           unsigned long long limit) {
  const unsigned long long start = Now();
  // The difference, so that numbers may wrap.
  while (static_cast<int32_t>(*opened - closed) < 0 && Now() - start < limit) {
  }
}

}  // namespace

LaunchGate::~LaunchGate() {
  if (opened_ == nullptr) return;
  Open();
  (void)cudaFreeHost(const_cast<uint32_t*>(opened_));  // waits for the device
}

cudaError_t LaunchGate::Init() {
  void* page = nullptr;
  const cudaError_t error =
      cudaHostAlloc(&page, sizeof(uint32_t), cudaHostAllocMapped | cudaHostAllocPortable);
  if (error != cudaSuccess) return error;
  opened_ = static_cast<uint32_t*>(page);
  *opened_ = 0;
  return cudaSuccess;
}

cudaError_t LaunchGate::Close(cudaStream_t stream) {
  ++closed_;
  // With unified addressing the host's pointer is the device's.
  HoldKernel<<<1, 1, 0, stream>>>(opened_, closed_, kLimitNanoseconds);
  return cudaGetLastError();
}

void LaunchGate::Open() { *opened_ = closed_; }

}  // namespace lcab::cuda
