// GLIBC_2.36's random numbers for an older C library, which Debian's libstdc++ and libevent call (older_glibc.cpp).
// relocatable.sh makes these load it.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" {

void arc4random_buf(void* to, std::size_t bytes) {
  auto* at = static_cast<unsigned char*>(to);
  while (bytes > 0) {
    const ssize_t got = getrandom(at, bytes, 0);
    if (got < 0) std::abort();  // only without the system call, which Linux has since 3.17, or on a bad address
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

std::uint32_t arc4random() {
  std::uint32_t out = 0;
  arc4random_buf(&out, sizeof out);
  return out;
}
}
