#include "data/merge.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "data/integer_type.h"
#include "data/token_formats.h"

namespace mtl {
namespace {

/// Returns how to merge files of two types: with the smaller of the types that hold all values of both.
std::string remedy_for(DataType a, DataType b) {
  if (!is_integer(a) || !is_integer(b)) return "floats are not token ids; merge the files separately";
  const IdRange needed_a = range_of(integer_type(a)), needed_b = range_of(integer_type(b));
  for (const DataType type : {DataType::u16, DataType::i32, DataType::i64}) {
    const IdRange range = range_of(integer_type(type));
    if (range.lowest > std::min(needed_a.lowest, needed_b.lowest)) continue;
    if (range.highest < std::max(needed_a.highest, needed_b.highest)) continue;
    return cat("if both were made with the same vocabulary, add --token-type ", name_of(type));
  }
  fail(Exit::failure, "no type holds ", name_of(a), " and ", name_of(b));
}

}  // namespace

std::vector<std::string> find_token_files(const std::string& folder) {
  std::error_code error, unknown;
  std::set<std::string> names;  // sorted by bytes, because std::string compares them as unsigned
  for (fs::directory_iterator file(folder, error), end; !error && file != end; file.increment(error)) {
    const std::string ending = file->path().extension().string();
    if (ending != ".bin" && ending != ".idx") continue;
    if (file->is_regular_file(unknown)) names.insert(file->path().stem().string());
  }
  if (error) fail(Exit::io, folder, ": cannot list the folder: ", error.message());
  std::vector<std::string> prefixes;
  for (const std::string& name : names) {
    const std::string prefix = (fs::path(folder) / name).string();
    for (const char* ending : {".bin", ".idx"}) {
      if (!file_exists(prefix + ending)) {
        const auto missing = explain_missing_index(prefix);
        if (missing && missing->code == Exit::bad_data) fail(missing->code, missing->message);
        fail(Exit::bad_data, prefix, ending, " is missing, but the other file of the pair exists; ",
             "copy the missing file again, or remove the other one");
      }
    }
    prefixes.push_back(prefix);
  }
  if (prefixes.empty()) fail(Exit::bad_data, folder, " has no token files (.bin and .idx); choose another folder");
  return prefixes;
}

MergeTraits check_mergeable(const std::vector<std::unique_ptr<IndexedDataset>>& inputs, std::optional<DataType> type) {
  const IndexedDataset& first = *inputs.front();
  const IndexedDataset* with_sequences = nullptr;
  for (const auto& data : inputs) {
    if (!type && data->type() != first.type()) {
      fail(Exit::bad_data, data->idx_file().path(), " stores tokens as ", name_of(data->type()), ", but ",
           first.idx_file().path(), " as ", name_of(first.type()), "; ", remedy_for(data->type(), first.type()));
    }
    if (data->sequences() == 0) continue;
    if (with_sequences == nullptr) with_sequences = data.get();
    if (data->is_multimodal() != with_sequences->is_multimodal()) {
      const IndexedDataset& modal = data->is_multimodal() ? *data : *with_sequences;
      const IndexedDataset& plain = data->is_multimodal() ? *with_sequences : *data;
      fail(Exit::bad_data, modal.idx_file().path(), " has modes (multimodal), but ", plain.idx_file().path(),
           " has none; merge them separately");
    }
  }
  return {type.value_or(first.type()), with_sequences != nullptr && with_sequences->is_multimodal()};
}

}  // namespace mtl
