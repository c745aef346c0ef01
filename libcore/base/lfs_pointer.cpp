#include "base/lfs_pointer.h"

#include <algorithm>

#include "base/str.h"

namespace mtl {

namespace {

// Git LFS itself accepts the last two, which its first releases wrote.
constexpr std::string_view kFirstLines[] = {"version https://git-lfs.github.com/spec/",
                                            "version https://hawser.github.com/spec/",
                                            "version http://git-media.io/v/"};

}  // namespace

void refuse_lfs_pointer(const std::string& path, std::string_view head, std::string_view subject) {
  const auto begins = [&](std::string_view line) { return starts_with(head, line); };
  // Text about Git LFS may begin like a pointer, but has no object id.
  if (std::ranges::none_of(kFirstLines, begins) || head.find("\noid ") == std::string_view::npos) return;
  constexpr std::string_view kSize = "\nsize ";
  const std::size_t at = head.find(kSize);
  std::string_view size = at == std::string_view::npos ? std::string_view() : head.substr(at + kSize.size());
  const auto bytes = parse_int(size.substr(0, size.find_first_of("\r\n")));
  throw LfsPointerError(
      Exit::bad_data, path,
      cat(subject, " a Git LFS pointer in place of the file", bytes ? cat(" (", with_commas(*bytes), " bytes)") : "",
          "; run `git lfs pull` in its repository"));
}

}  // namespace mtl
