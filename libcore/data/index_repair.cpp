#include "data/index_repair.h"

#include <cstddef>

#include "base/open_file.h"
#include "data/indexed_format.h"
#include "data/number_writer.h"

namespace mtl {

IndexRepair repair_index(const std::string& prefix, const std::string& output, InterruptGuard* guard) {
  const MappedFile idx(prefix + ".idx"), bin(prefix + ".bin");
  const OpenFile open_idx(idx.path());
  const IndexSummary summary = check_index_without_wraps(idx, bin);
  const std::size_t pointers_at = kHeaderBytes + 4 * summary.sequences, rest_at = pointers_at + 8 * summary.sequences;
  const std::byte* lengths = idx.bytes().data() + kHeaderBytes;
  const std::byte* pointers = idx.bytes().data() + pointers_at;
  const auto token_bytes = static_cast<std::int64_t>(item_size(summary.type));
  IndexRepair repair{.sequences = summary.sequences};

  AtomicFile file(output, guard);
  file.write(idx.text().substr(0, pointers_at));
  NumberWriter numbers(file.out());
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < summary.sequences; ++i) {
    numbers.add(at);
    repair.changed += load_at<std::int64_t>(pointers + 8 * i) != at;
    at += load_at<std::int32_t>(lengths + 4 * i) * token_bytes;
  }
  numbers.flush();
  file.write(idx.text().substr(rest_at));
  open_idx.check_size(idx.bytes().size());
  file.commit();
  return repair;
}

}  // namespace mtl
