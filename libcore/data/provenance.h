// PREFIX.json next to token files: how they were made, schema mtl-provenance/1 (mtl-idx(5)).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/document_copy.h"
#include "data/indexed_dataset.h"

namespace mtl {

/// Returns the content of PREFIX.json; nothing if the file is missing, broken or of another kind.
std::optional<Json> read_provenance(const std::string& prefix);

/// The scope of a check by check_provenance(): nothing, counts and type, or also the content of both files.
enum class ProvenanceCheck { none, counts, content };

/// Throws BrokenRule if PREFIX.json is broken or contradicts the files: counts or type ("provenance"), or the content
/// of a file whose hash is recorded ("hash"). Reads such a file to compute its hash.
ProvenanceCheck check_provenance(const IndexedDataset& data);

/// Describes a file that was read: {"path", "bytes", "xxh3"}.
Json describe_input(const std::string& path, std::uint64_t bytes, std::uint64_t hash);
/// Describes both files of each data set in a list. Reads the whole files.
Json describe_inputs(const std::vector<const IndexedDataset*>& inputs);

/// Returns the tokenizer that all data sets record; null if they differ or one records none.
Json common_tokenizer(const std::vector<const IndexedDataset*>& inputs);

/// {"prefix", "documents", "sequences", "tokens", "dtype", "bin_bytes", "bin_xxh3", "idx_bytes", "idx_xxh3"}
Json describe_output(const TokenFilesWritten& files);

/// Returns the content of PREFIX.json. `command`: the words of the command line. Omits a null tokenizer.
Json make_provenance(const std::string& program, const std::vector<std::string>& command, const Json& tokenizer,
                     const Json& inputs, const Json& output);

}  // namespace mtl
