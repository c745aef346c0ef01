// mtl-data verify: checks token files against their entire format.
#include <cstdio>
#include <string>

#include "base/count_of.h"
#include "base/heartbeat.h"
#include "base/json.h"
#include "cli/data/commands.h"
#include "cli/data/tokenizer.h"
#include "cli/single_process.h"
#include "data/verify.h"

namespace mtl {
namespace {

Json to_json(const Verdict& verdict) {
  Json out =
      Json::object({{"schema", "mtl-data-verify/1"}, {"prefix", verdict.prefix}, {"ok", verdict.code == Exit::ok}});
  if (verdict.code == Exit::ok) {
    out.set("documents", verdict.documents);
    out.set("sequences", verdict.sequences);
    out.set("tokens", verdict.tokens);
    out.set("dtype", name_of(verdict.type));
    out.set("vocab_size", verdict.vocabulary ? Json(verdict.vocabulary->size) : Json());
    out.set("provenance", verdict.provenance >= ProvenanceCheck::counts);
    return out.set("hashes", verdict.provenance == ProvenanceCheck::content);
  }
  const auto& violation = verdict.violation;
  out.set("rule", violation ? Json(violation->rule) : Json());
  out.set("file", violation ? Json(violation->file) : Json());
  out.set("offset", violation && violation->offset ? Json(*violation->offset) : Json());
  return out.set("message", verdict.message);
}

std::string summary_of(const Verdict& verdict) {
  std::string out = cat(count_of(verdict.documents, "document"), ", ", count_of(verdict.sequences, "sequence"), ", ",
                        count_of(verdict.tokens, "token"), " as ", name_of(verdict.type));
  if (const auto& vocabulary = verdict.vocabulary)
    out += cat("; all ids are below ", with_commas(vocabulary->size), " (", vocabulary->source, ")");
  if (verdict.provenance == ProvenanceCheck::foreign)
    out += cat("; ", verdict.prefix, ".json does not record how they were made: no hashes were compared");
  if (verdict.provenance >= ProvenanceCheck::counts) out += cat("; agrees with ", verdict.prefix, ".json");
  if (verdict.provenance == ProvenanceCheck::counts)
    out += ", which records no hashes: a changed token is not detected";
  return out;
}

std::string to_text(const Verdict& verdict) {
  if (verdict.code == Exit::ok) return cat(verdict.prefix, ": sound: ", summary_of(verdict), "\n");
  if (!verdict.violation) return cat(verdict.prefix, ": cannot be read\n");
  const auto& [rule, file, offset] = *verdict.violation;
  return cat(verdict.prefix, ": broken: rule ", rule, ", ", offset ? cat("byte ", *offset, " of ") : "", file, "\n");
}

Exit verify_all(const DataInspection& options, Console& console) {
  const auto tokenizer = load_optional_tokenizer(options.tokenizer);
  Exit worst = Exit::ok;
  for (const std::string& path : options.prefixes) {
    const auto vocabulary = find_vocabulary_size(options.tokenizer, tokenizer.get(), dataset_prefix(path));
    const Verdict verdict = [&] {
      const Heartbeat verifying(console, cat("verifying ", path));
      return verify_token_files(path, vocabulary, resolve_threads(options.threads));
    }();
    print_out(options.json ? to_json(verdict).dump() + "\n" : to_text(verdict));
    if (verdict.code == Exit::ok) continue;
    std::fprintf(stderr, "%s: %s\n", console.program().c_str(), verdict.message.c_str());
    if (worst != Exit::bad_data) worst = verdict.code;
  }
  return worst;
}

}  // namespace

int data_verify(int argc, const char* const* argv) {
  DataInspection options;
  Flags flags("mtl-data verify",
              "check token files against their format, against PREFIX.json, and ids against a vocabulary size");
  add_inspection_flags(flags, options, "mtl-data-verify/1");
  return run_single_process(flags, argc, argv, [&](Console& console) { return verify_all(options, console); });
}

}  // namespace mtl
