#include "device/cuda_library.h"

#include <dlfcn.h>

#include "base/error.h"
#include "base/str.h"

namespace mtl {

namespace {

/// Returns paths to try for a name, in order.
std::vector<std::string> candidates_of(const std::string& name) {
  if (name.find('/') != std::string::npos) return {name};
  return {name, "/usr/local/cuda/lib64/" + name, "/usr/local/cuda/extras/CUPTI/lib64/" + name};
}

}  // namespace

// We never close the library: it starts threads, and registers functions to run at exit.
CudaLibrary::CudaLibrary(const std::vector<std::string>& names, const std::string& purpose, const std::string& remedy) {
  std::vector<std::string> reasons;
  for (const std::string& name : names) {
    for (const std::string& path : candidates_of(name)) {
      name_ = path;
      handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      reasons.emplace_back(::dlerror());
    }
  }
  require(!names.empty(), "a library without a name cannot be opened");
  fail(Exit::failure, "cannot open ", names.front(), ", which ", purpose, " (", join(reasons, "; "), "); ", remedy);
}

bool CudaLibrary::has(const char* function) const { return ::dlsym(handle_, function) != nullptr; }

CudaLibrary::Symbol CudaLibrary::operator[](const char* function) const {
  void* address = ::dlsym(handle_, function);
  require(address != nullptr, name_, " has no function ", function, "; install a later version of it");
  return Symbol(address);
}

}  // namespace mtl
