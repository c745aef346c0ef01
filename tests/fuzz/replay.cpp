// Runs a fuzz target on all files in the given folders, without libFuzzer: mtl_replay READER FOLDER... A crash
// terminates the process.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

// readers.inc lists the readers: READER(json) and so on.
#define READER(name) extern "C" int replay_##name(const std::uint8_t* data, std::size_t size);
#include "readers.inc"
#undef READER

namespace {

struct Reader {
  const char* name;
  int (*run)(const std::uint8_t* data, std::size_t size);
};
#define READER(name) {#name, replay_##name},
const Reader kReaders[] = {
#include "readers.inc"
};
#undef READER

int replay(const Reader& reader, const std::filesystem::path& folder) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    std::printf("%s\n", entry.path().c_str());
    std::fflush(stdout);  // the last line is the file that crashed
    reader.run(reinterpret_cast<const std::uint8_t*>(content.data()), content.size());
    ++files;
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  int files = 0;
  for (const Reader& reader : kReaders) {
    for (int i = 2; i < argc; ++i) files += argv[1] == std::string(reader.name) ? replay(reader, argv[i]) : 0;
  }
  return files > 0 ? 0 : 1;
}
