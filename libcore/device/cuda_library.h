// Shared libraries of CUDA (cuBLASLt, NCCL, CUPTI, cuDNN), opened when they are first needed: they are large, and a
// program that only uses the cpu must start on machines that do not have them.
//
//   struct CublasLt {
//     CudaLibrary library{{"libcublasLt.so.13"}, "multiplies matrices on the GPU", "install cuBLAS 13"};
//     decltype(&::cublasLtCreate) create = library["cublasLtCreate"];
//   };
#pragma once

#include <string>
#include <vector>

namespace mtl {

class CudaLibrary {
 public:
  /// A function of a library; becomes a pointer to any type of function.
  class Symbol {
   public:
    explicit Symbol(void* address) : address_(address) {}
    template <class Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address_);
    }

   private:
    void* address_;
  };

  /// Opens the first of `names` that can be opened. A name without a slash is looked for in LD_LIBRARY_PATH and the
  /// system's folders, then in CUDA's own (/usr/local/cuda); one with a slash is a path. The library stays open until
  /// the process ends. Throws Error with the loader's reasons: "cannot open NAME, which PURPOSE: ...; REMEDY".
  CudaLibrary(const std::vector<std::string>& names, const std::string& purpose, const std::string& remedy);

  /// Throws Error when the library has no such function.
  Symbol operator[](const char* function) const;
  /// True if it has the function: later versions add some.
  bool has(const char* function) const;
  /// As it was opened: a name, or a path.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace mtl
