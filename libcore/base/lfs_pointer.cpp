#include "base/lfs_pointer.h"

#include "base/error.h"

namespace mtl {

void refuse_lfs_pointer(const std::string& path, std::string_view head) {
  // Text about Git LFS may begin like a pointer, but has no object id.
  if (!starts_with(head, "version https://git-lfs.github.com/spec/") || head.find("\noid ") == std::string_view::npos)
    return;
  constexpr std::string_view kSize = "\nsize ";
  const std::size_t at = head.find(kSize);
  std::string_view size = at == std::string_view::npos ? std::string_view() : head.substr(at + kSize.size());
  const auto bytes = parse_int(size.substr(0, size.find_first_of("\r\n")));
  fail_at(Exit::bad_data, path, "this is a Git LFS pointer in place of the file",
          bytes ? cat(" (", with_commas(*bytes), " bytes)") : "", "; run `git lfs pull` in its repository");
}

}  // namespace mtl
