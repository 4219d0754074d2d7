// Defaults of the sanitizers, linked into every executable of a sanitizer build.
//
// Debian's gRPC, protobuf and Abseil are not instrumented; ThreadSanitizer would report their
// synchronisation as missing, so it is told to look at our code only.

extern "C" {

const char* __tsan_default_options();
const char* __asan_default_options();
const char* __ubsan_default_options();

const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:second_deadlock_stack=1";
}
const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:strict_init_order=1:check_initialization_order=1";
}
const char* __ubsan_default_options() { return "print_stacktrace=1"; }
}
