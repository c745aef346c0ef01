// PREFIX.json, which lies next to token files and records how they were made. Its schema is mtl-provenance/1
// (mtl-idx(5)).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/document_copy.h"
#include "data/indexed_dataset.h"

namespace mtl {

/// Returns the content of PREFIX.json; nullopt if the file is missing, broken, or not a provenance file.
std::optional<Json> read_provenance(const std::string& prefix);

/// What check_provenance() was able to check: nothing, counts and type, or also the content of both files.
enum class ProvenanceCheck { none, counts, content };

/// Checks token files against their PREFIX.json. Throws BrokenRule with rule "provenance" if PREFIX.json is broken or
/// records other counts or another type, and with rule "hash" if a file does not have the recorded hash. If PREFIX.json
/// records the hash of a file, reads that whole file.
ProvenanceCheck check_provenance(const IndexedDataset& data);

/// Returns the record of an input file: {"path", "bytes", "xxh3"}.
Json describe_input(const std::string& path, std::uint64_t bytes, std::uint64_t hash);
/// Returns the records of both files of each data set. Reads all of these files completely.
Json describe_inputs(const std::vector<const IndexedDataset*>& inputs);

/// Returns the tokenizer that the provenance of every data set records. Returns null if the tokenizers differ or if at
/// least one data set records none.
Json common_tokenizer(const std::vector<const IndexedDataset*>& inputs);

/// Returns {"prefix", "documents", "sequences", "tokens", "dtype", "bin_bytes", "bin_xxh3", "idx_bytes", "idx_xxh3"}.
Json describe_output(const TokenFilesWritten& files);

/// Returns the content of a new PREFIX.json. `command` holds the words of the command line. A null tokenizer is
/// omitted.
Json make_provenance(const std::string& program, const std::vector<std::string>& command, const Json& tokenizer,
                     const Json& inputs, const Json& output);

}  // namespace mtl
