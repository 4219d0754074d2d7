// Standard output as a stream whose errors are kept: a full disk fails the verb, whenever it was
// met, and a reader that has left (`| head`) does not.

#ifndef LCAB_CLIENT_OUTPUT_BUFFER_H_
#define LCAB_CLIENT_OUTPUT_BUFFER_H_

#include <cstddef>
#include <streambuf>
#include <vector>

#include "client/exit_codes.h"
#include "client/verb.h"

namespace lcab::client {

class OutputBuffer : public std::streambuf {
 public:
  explicit OutputBuffer(int file_descriptor);

  // errno of the first write that failed; 0 while none has. What follows it is dropped.
  int error() const { return error_; }

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  const int file_descriptor_;
  int error_ = 0;
  std::vector<char> buffer_;
};

// Writes what is left in `console.out`, which writes to `buffer`. Returns `code`, or kInternal with
// a message where something could not be written to a reader that is there.
ExitCode FinishOutput(ExitCode code, const OutputBuffer& buffer, Console& console);

}  // namespace lcab::client

#endif  // LCAB_CLIENT_OUTPUT_BUFFER_H_
