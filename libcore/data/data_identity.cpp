#include "data/data_identity.h"

#include <algorithm>

#include "base/count_of.h"
#include "base/error.h"
#include "base/mapped_pages.h"

namespace mtl {
namespace {

constexpr std::uint64_t kBlockBytes = 4096, kMaxBlocks = 1024;

Json::Array identities_of(const Json& identity) {
  const Json* files = identity.find("files");
  return files == nullptr ? Json::Array{identity} : files->as_array();
}

std::string file_difference(const Json& saved, const Json& now) {
  for (const char* key : {"bin_bytes", "idx_bytes", "idx_hash", "bin_hash"}) {
    const Json *before = saved.find(key), *after = now.find(key);
    if (before == nullptr || after == nullptr || *before == *after) continue;
    return cat(now.string_or("path", "the data"), ": ", key, " is ", after->dump(), ", but was ", before->dump(), " (",
               saved.string_or("path", ""), ")");
  }
  return "";
}

}  // namespace

std::uint64_t sample_hash(const MappedFile& file) {
  const std::uint64_t bytes = file.bytes().size(), blocks = (bytes + kBlockBytes - 1) / kBlockBytes;
  const std::uint64_t taken = std::min(blocks, kMaxBlocks);
  expect_scattered_reads(file, true);
  Hasher hasher;
  for (std::uint64_t i = 0; i < taken; ++i) {
    // Computed in 128 bits, because the product could overflow 64 bits.
    const auto at =
        taken < 2 ? 0 : static_cast<std::uint64_t>(static_cast<__uint128_t>(i) * (blocks - 1) / (taken - 1));
    const std::uint64_t begin = at * kBlockBytes;
    hasher.update(file.bytes().data() + begin, std::min(kBlockBytes, bytes - begin));
  }
  expect_scattered_reads(file, false);
  return hasher.digest();
}

Json file_identity(const IndexedDataset& file) {
  return Json::object({{"path", file.prefix()},
                       {"bin_bytes", file.bin_bytes()},
                       {"bin_hash", hash_text(sample_hash(file.bin_file()))},
                       {"idx_bytes", file.idx_bytes()},
                       {"idx_hash", hash_text(file.idx_hash())}});
}

std::string data_difference(const Json& saved, const Json& now) {
  const Json::Array before = identities_of(saved), after = identities_of(now);
  if (before.empty() != after.empty()) {
    const char *read = "read from files", *generated = "generated (--mock-data)";
    return cat("tokens are ", after.empty() ? generated : read, ", but were ", before.empty() ? generated : read);
  }
  std::vector<std::string> out;
  if (before.size() != after.size())
    out.push_back(cat(count_of(after.size(), "data set"), ", but there were ", before.size()));
  for (std::size_t i = 0; i < after.size() && before.size() == after.size(); ++i) {
    std::string difference = file_difference(before[i], after[i]);
    if (!difference.empty()) out.push_back(std::move(difference));
  }
  const Json *old_order = saved.find("order"), *order = now.find("order");
  if (old_order == nullptr || order == nullptr) return join(out, "; ");
  for (const auto& [flag, value] : order->as_object()) {
    const Json* was = old_order->find(flag);
    if (was != nullptr && *was != value) out.push_back(cat(flag, " is ", value.dump(), ", but was ", was->dump()));
  }
  return join(out, "; ");
}

}  // namespace mtl
