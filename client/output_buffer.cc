#include "client/output_buffer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lcab::client {
namespace {

constexpr size_t kBufferBytes = 1 << 16;

}  // namespace

OutputBuffer::OutputBuffer(int file_descriptor)
    : file_descriptor_(file_descriptor), buffer_(kBufferBytes) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

OutputBuffer::int_type OutputBuffer::overflow(int_type c) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

int OutputBuffer::sync() {
  for (const char* next = pbase(); next < pptr() && error_ == 0;) {
    const ssize_t count = write(file_descriptor_, next, static_cast<size_t>(pptr() - next));
    if (count >= 0) {
      next += count;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return error_ == 0 ? 0 : -1;
}

ExitCode FinishOutput(ExitCode code, const OutputBuffer& buffer, Console& console) {
  console.out.flush();
  if (buffer.error() == 0 || buffer.error() == EPIPE) return code;
  return Fail(console, ExitCode::kInternal,
              fmt::format("cannot write to standard output: {}; what was printed is not whole",
                          std::strerror(buffer.error())));
}

}  // namespace lcab::client
