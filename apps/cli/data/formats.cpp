// mtl-data formats: lists the formats of token files.
#include <string>

#include "base/json.h"
#include "cli/data/commands.h"
#include "cli/single_process.h"
#include "data/token_formats.h"

namespace mtl {
namespace {

std::string to_text(const TokenFormatRow& row) {
  const std::string_view writes = row.writes.empty() ? "nothing" : row.writes;
  return cat(row.name, "\n  recognized  ", row.recognized, "\n  import      ", row.reads, "\n  export      ", writes,
             "\n");
}

Json to_json(const TokenFormatRow& row) {
  return Json::object(
      {{"name", row.name}, {"recognized", row.recognized}, {"import", row.reads}, {"export", row.writes}});
}

}  // namespace

int data_formats(int argc, const char* const* argv) {
  bool json = false;
  Flags flags("mtl-data formats", "list the formats of token files that import and export convert");
  flags.add_switch("--json", json, "print the formats as JSON, schema mtl-data-formats/1");
  return run_single_process(flags, argc, argv, [&](Console&) {
    Json rows = Json::array();
    for (const TokenFormatRow& row : token_formats()) {
      rows.push(to_json(row));
      if (!json) print_out(to_text(row));
    }
    if (json) print_out(Json::object({{"schema", "mtl-data-formats/1"}, {"formats", rows}}).dump(2) + "\n");
  });
}

}  // namespace mtl
