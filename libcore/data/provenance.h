// PREFIX.json, a file next to token files that records how they were made. Its schema is mtl-provenance/1 (mtl-idx(5)).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/document_copy.h"
#include "data/indexed_dataset.h"

namespace mtl {

/// Returns the contents of PREFIX.json, or nullopt if it is missing, invalid, unreadable, or not a provenance file.
std::optional<Json> read_provenance(const std::string& prefix);
/// Returns why PREFIX.json is invalid or unreadable, or "" if it is neither.
std::string provenance_fault(const std::string& prefix);

/// What check_provenance() was able to check: nothing, because PREFIX.json is missing or records no token files; counts
/// and type; or also the contents of both files.
enum class ProvenanceCheck { none, foreign, counts, content };

/// Checks token files against their PREFIX.json. Throws BrokenRule with rule "provenance" if PREFIX.json is invalid or
/// has different counts or a different type, and with rule "hash" if a file's hash does not match; Error(io) if
/// PREFIX.json cannot be read. Reads each file for which PREFIX.json has a hash completely.
ProvenanceCheck check_provenance(const IndexedDataset& data);

/// Returns the record for an input file: {"path", "bytes", "xxh3"}.
Json describe_input(const std::string& path, std::uint64_t bytes, std::uint64_t hash);
/// Returns the records for both files in each data set. Reads all of these files completely.
Json describe_inputs(const std::vector<const IndexedDataset*>& inputs);

/// Returns the tokenizer that every data set's provenance records. Returns null if the tokenizers differ or any data
/// set has no tokenizer recorded.
Json common_tokenizer(const std::vector<const IndexedDataset*>& inputs);

/// Returns {"prefix", "documents", "sequences", "tokens", "dtype", "bin_bytes", "bin_xxh3", "idx_bytes", "idx_xxh3"}.
Json describe_output(const TokenFilesWritten& files);

/// Returns the contents for a new PREFIX.json. `command` has the words of the command line. A null tokenizer is
/// omitted.
Json make_provenance(const std::string& program, const std::vector<std::string>& command, const Json& tokenizer,
                     const Json& inputs, const Json& output);

}  // namespace mtl
