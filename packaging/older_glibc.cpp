// Edits shared libraries so that they start with a C library of version 2.34, if they need newer versions only for
// functions that arc4random.cpp defines. relocatable.sh applies it to its copies of Debian's libraries. Each such
// function becomes unversioned, and so can come from any library; the file's requirement of the newer version then
// names an older one that the file requires anyway. Prints nothing; exit status 1 if a file needs another function.
// Usage: mtl_older_glibc FILE...
#include <elf.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

constexpr int kNewestMinor = 34;

/// Returns true for "GLIBC_2.M" with M above kNewestMinor.
bool is_too_new(const char* version) {
  int minor = 0;
  return std::sscanf(version, "GLIBC_2.%d", &minor) == 1 && minor > kNewestMinor;
}

class Library {
 public:
  explicit Library(std::string bytes) : bytes_(std::move(bytes)) {
    const Elf64_Ehdr* header = at<Elf64_Ehdr>(0);
    if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64)
      throw std::runtime_error("is not a 64-bit ELF file");
    for (int i = 0; i < header->e_shnum; ++i) {
      const Elf64_Shdr* section = at<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr));
      if (section->sh_type == SHT_DYNSYM) symbols_ = section;
      if (section->sh_type == SHT_GNU_versym) versions_ = section;
      if (section->sh_type == SHT_GNU_verneed) needs_ = section;
    }
    if (symbols_ != nullptr) names_ = at<Elf64_Shdr>(header->e_shoff + symbols_->sh_link * sizeof(Elf64_Shdr));
  }

  void allow_older_glibc() {
    if (symbols_ == nullptr || versions_ == nullptr || needs_ == nullptr) return;
    Elf64_Off need_at = needs_->sh_offset;
    for (unsigned need_left = needs_->sh_info; need_left > 0; --need_left) {
      const Elf64_Verneed* need = at<Elf64_Verneed>(need_at);
      const Elf64_Vernaux* older = nullptr;
      for_each_version(need_at, [&](Elf64_Vernaux& version) {
        if (!is_too_new(name(version.vna_name))) older = &version;
      });
      for_each_version(need_at, [&](Elf64_Vernaux& version) {
        if (!is_too_new(name(version.vna_name))) return;
        remove_version(version.vna_other);
        if (older == nullptr) throw std::runtime_error("requires no older version of the C library");
        version.vna_name = older->vna_name;
        version.vna_hash = older->vna_hash;
      });
      need_at += need->vn_next;
    }
  }

  const std::string& bytes() const { return bytes_; }

 private:
  template <class T>
  T* at(Elf64_Off offset) {
    if (offset + sizeof(T) > bytes_.size()) throw std::runtime_error("is truncated");
    return reinterpret_cast<T*>(bytes_.data() + offset);
  }
  const char* name(Elf64_Word offset) { return at<char>(names_->sh_offset + offset); }

  template <class Body>
  void for_each_version(Elf64_Off need_at, const Body& body) {
    const Elf64_Verneed* need = at<Elf64_Verneed>(need_at);
    Elf64_Off version_at = need_at + need->vn_aux;
    for (int left = need->vn_cnt; left > 0; --left) {
      auto* version = at<Elf64_Vernaux>(version_at);
      body(*version);
      version_at += version->vna_next;
    }
  }

  /// Makes the symbols with version number `version` unversioned.
  void remove_version(Elf64_Half version) {
    for (Elf64_Xword i = 0; i < symbols_->sh_size / sizeof(Elf64_Sym); ++i) {
      auto* of_symbol = at<Elf64_Versym>(versions_->sh_offset + i * sizeof(Elf64_Versym));
      if ((*of_symbol & 0x7fff) != version) continue;
      const std::string_view symbol = name(at<Elf64_Sym>(symbols_->sh_offset + i * sizeof(Elf64_Sym))->st_name);
      if (symbol != "arc4random" && symbol != "arc4random_buf")
        throw std::runtime_error("needs " + std::string(symbol) + " of a newer C library than GLIBC_2." +
                                 std::to_string(kNewestMinor) + "; arc4random.cpp can define it");
      *of_symbol = VER_NDX_GLOBAL;
    }
  }

  std::string bytes_;
  const Elf64_Shdr *symbols_ = nullptr, *versions_ = nullptr, *needs_ = nullptr, *names_ = nullptr;
};

void allow_older_glibc(const char* path) {
  std::ifstream in(path, std::ios::binary);
  Library library({std::istreambuf_iterator<char>(in), {}});
  library.allow_older_glibc();
  std::ofstream out(path, std::ios::binary);
  out << library.bytes() << std::flush;
  if (!out) throw std::runtime_error("cannot be written");
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    try {
      allow_older_glibc(arguments[i]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "mtl_older_glibc: %s %s\n", arguments[i], error.what());
      return 1;
    }
  }
}
