#include "models/sharded_reader.h"

#include <algorithm>

#include "base/files.h"

namespace mtl {

void ShardedReader::verify_slice(std::size_t index, const Slice& slice) const {
  MappedReader::verify_slice(index, slice);
  constexpr std::string_view kParam = "param.";
  if (!starts_with(tensors[index].name, kParam)) return;
  const std::string canonical = tensors[index].name.substr(kParam.size());
  for (const std::string& name : {canonical, gate_name(canonical)}) {
    if (const ShardedParameter* weights = model().parameter(name)) check_main(name, *weights);
  }
}

std::string ShardedReader::identity() const {
  std::string lines;
  for (const auto& file : model().files) {
    const fs::path path(file->path());
    Hasher hasher;
    hash_sample(hasher, file->bytes(), 64);
    lines +=
        cat(lines.empty() ? "" : "\n", format_.has_rank_folders ? cat(path.parent_path().filename().string(), "/") : "",
            path.filename().string(), ": ", file->bytes().size(), " bytes, ", hash_text(hasher.digest()));
  }
  return lines;
}

MegatronShapes ShardedReader::shapes() const {
  return megatron_shapes(model().layers, [&](const std::string& name) { return model().shape_of(name); });
}

const ShardedParameter& ShardedReader::required(const ShardedParameters& parameters,
                                                const std::string& canonical) const {
  const auto found = parameters.find(canonical);
  if (found == parameters.end()) refuse_tensor(path_, canonical, "is missing; copy all files of the checkpoint");
  return found->second;
}

void ShardedReader::add_pieces(TensorMap& map, const CanonicalTensor& canonical, const ShardedParameter& parameter,
                               const StoredShard& shard, int rank, const MegatronRows& rows) const {
  check_dtype(parameter, shard);
  const std::int64_t parts = parameter.split == MegatronSplit::none ? 1 : model().tensor_parallel;
  const int axis = parameter.split == MegatronSplit::columns || canonical.row_axes() == 2 ? 1 : 0;
  Slice box = whole_slice(canonical.shape);
  if (is_vocabulary(canonical.name)) box.size[0] = extent(canonical.name, 0);  // with padding rows
  const std::int64_t size = box.size.at(axis);
  if (size % parts != 0)
    refuse(parameter, shard, "has ", parts, " shards along an axis of ", size,
           format_.states_divisor ? cat(", not a multiple of ", parts) : "", "; copy the files of all ranks again");
  box = narrow(box, axis, parts > 1 ? rank * (size / parts) : 0, size / parts);
  const std::vector<StoredMatrix> matrices = megatron_matrices(canonical, box, rows);
  std::vector<std::int64_t> expected = matrices.front().shape();
  for (std::size_t i = 1; i < matrices.size(); ++i) expected[0] += matrices[i].rows();
  if (shard.shape != expected)
    refuse(parameter, shard, "has shape ", shape_text(shard.shape), ", but the model needs ", shape_text(expected),
           "; use files and a configuration of the same model");
  std::int64_t row = 0;  // in the shard
  for (const StoredMatrix& matrix : matrices) {
    const std::int64_t begin = row * matrix.columns, end = begin + matrix.whole().count();
    std::int64_t segment_begin = 0;
    for (const ShardSegment& segment : shard.segments) {
      const TorchTensor& elements = segment.elements;
      const std::int64_t first = std::max(begin, segment_begin);
      const std::int64_t last = std::min(end, segment_begin + elements.count());
      std::vector<TensorPiece> pieces;
      if (elements.shape == shard.shape) {  // the whole shard, with any strides
        const MatrixStrides strides{elements.strides[0], matrix.column_axis < 0 ? 1 : elements.strides[1]};
        add_rectangle(matrix, matrix.whole(), 0, row * strides.rows, strides, pieces);
      } else if (first < last) {
        add_range(matrix, matrix.whole(), first - begin, last - begin, 0, first - segment_begin, pieces);
      }
      for (TensorPiece& piece : pieces)
        map.add(std::move(piece), elements.data, segment.file, elements.record, parameter.name);
      segment_begin += elements.count();
    }
    row += matrix.rows();
  }
}

void ShardedReader::add_pieces(TensorMap& map, const CanonicalTensor& canonical, const ShardedParameter& parameter,
                               const MegatronRows& rows) const {
  const int ranks = parameter.split == MegatronSplit::none ? 1 : model().tensor_parallel;
  for (int rank = 0; rank < ranks; ++rank) add_pieces(map, canonical, parameter, parameter.shards[rank], rank, rows);
}

void ShardedReader::check_dtype(const ShardedParameter& parameter, const StoredShard& shard) const {
  const StoredDType dtype = parameter.shards.front().dtype;
  if (!is_model_dtype(dtype))
    refuse(parameter, shard, "is stored as ", name_of(dtype),
           ", but mtl reads only F16, BF16, F32 and F64; save the checkpoint in one of these");
  if (shard.dtype != dtype)
    refuse(parameter, shard, "is stored as ", name_of(shard.dtype), ", but by rank 0 as ", name_of(dtype),
           "; use files of the same checkpoint");
}

void ShardedReader::check_known() const {
  std::set<std::string> known;
  for (const SavedTensor& tensor : tensors) known.insert(tensor.name);
  for (const auto& [name, parameter] : model().parameters) {
    if (!known.contains(cat("param.", up_name(name))))
      refuse(parameter, parameter.shards.front(), "does not fit the model that the checkpoint's ", format_.described_by,
             " and other tensors describe; copy the checkpoint again, or use another one");
  }
}

void ShardedReader::check_main(const std::string& name, const ShardedParameter& weights) const {
  const auto main = main_.find(name);
  if (main == main_.end() || !checked_main_.insert(name).second) return;
  for (std::size_t rank = 0; rank < main->second.shards.size(); ++rank) {
    if (!rounds_to_weights(main->second.shards[rank], weights.shards[rank]))
      refuse(main->second, main->second.shards[rank], "does not round to the weights in ",
             fs::path(weights.shards[rank].path()).filename().string(), format_.mismatch);
  }
}

}  // namespace mtl
