#include "base/exception_text.h"

#include <filesystem>
#include <new>
#include <system_error>

#include "base/error.h"

namespace mtl {

std::string describe_exception(const std::exception& error) {
  if (dynamic_cast<const Error*>(&error) != nullptr) return error.what();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return cat(files->path1().string(), ": ", files->code().message());
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system == nullptr || system->code() != std::errc::resource_unavailable_try_again)
    return cat("internal error: ", error.what());
  return "cannot start a thread, because the limit on processes and threads is reached (ulimit -u, or pids.max of the "
         "container or job); raise it, or use fewer threads (--threads or --workers)";
}

}  // namespace mtl
