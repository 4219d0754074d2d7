#include "worker/gpus.h"

#include <fmt/format.h>

#include "device/cuda/gpu_facts.h"
#include "suites/conversion.h"

namespace lcab::worker {

Gpus FindGpus() {
  Gpus found;
  CudaDevices devices = ListCudaDevices();
  found.reason = std::move(devices.reason);
  for (CudaDeviceProperties& properties : devices.devices) {
    Gpu& gpu = found.gpus.emplace_back();
    gpu.facts = ReadGpuFacts(properties);
    gpu.others = OtherProcessesOn(properties, {});
    gpu.properties = std::move(properties);
  }
  return found;
}

void AddGpus(const Gpus& gpus, int threads, Inventory& inventory) {
  if (gpus.gpus.empty()) inventory.notes.push_back(fmt::format("no GPU: {}", gpus.reason));
  for (const Gpu& gpu : gpus.gpus) {
    DeviceSlot& slot = inventory.slots.emplace_back();
    slot.kind = DeviceKind::kCuda;
    slot.id = gpu.properties.uuid;
    slot.index = gpu.properties.index;
    slot.threads = threads;

    v1::Device& info = inventory.devices.emplace_back();
    info.set_id(slot.id);
    info.set_kind(std::string(suites::Name(slot.kind)));
    info.set_model(gpu.properties.model);
    info.set_threads(gpu.properties.multiprocessors);
    info.set_memory_bytes(gpu.properties.memory_bytes);
    for (std::string& fact : ComparableFacts(gpu.properties, gpu.facts)) {
      info.add_facts(std::move(fact));
    }
    for (std::string& fact : PlaceFacts(gpu.properties, gpu.facts)) info.add_facts(std::move(fact));
    for (std::string& note : GpuNotes(gpu.properties, gpu.facts, gpu.others)) {
      inventory.notes.push_back(std::move(note));
    }
  }
}

}  // namespace lcab::worker
