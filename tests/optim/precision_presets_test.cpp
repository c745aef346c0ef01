// Precision presets: the published table, and bytes per parameter.
#include "optim/precision_presets.h"

#include <doctest/doctest.h>

#include "base/str.h"
#include "tests/doc_table.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

std::int64_t bytes_per_parameter(const Precision& precision) {
  std::int64_t bytes = 0;
  for (const PrecisionRole& role : precision_roles(precision, single_rule<AdamW>(), {})) bytes += role.bytes();
  return bytes;
}

}  // namespace

TEST_CASE("precision presets: the dtypes of each column, and bytes per parameter") {
  const std::vector<std::string> want = {
      "fp32: fp32 none fp32 fp32 fp32 16",       "bf16: fp32 bf16 fp32 bf16 fp32 18",
      "fp16: fp32 fp16 fp32 fp16 fp32 18",       "fsdp-low: bf16 none bf16 bf16 bf16 8",
      "fsdp-mixed: bf16 bf16 fp32 bf16 fp32 16", "deepspeed: bf16 bf16 fp32 bf16 fp32 18"};
  std::vector<std::string> got;
  for (const PrecisionPreset& preset : precision_presets()) {
    const PrecisionRow row = precision_row(preset.precision, single_rule<AdamW>());
    got.push_back(cat(preset.name, ": ", row.load, " ", row.mixed, " ", row.preparation, " ", row.training, " ",
                      row.optimizer, " ", bytes_per_parameter(preset.precision)));
    CHECK(find_precision(preset.name) == preset.precision);
  }
  CHECK(got == want);
  CHECK(find_precision("fp32") == kPrecisionFp32);
  CHECK(test::error_of([] { find_precision("fp8"); }) ==
        "no precision is named 'fp8'; choose one of fp32, bf16, fp16, fsdp-low, fsdp-mixed, deepspeed");
}

TEST_CASE("precision presets: docs/precision.md and the manual page have the rows of the table") {
  std::vector<std::string> expected, documented, manual;
  for (const PrecisionPreset& preset : precision_presets()) {
    const auto [load, mixed, preparation, training, optimizer] = precision_row(preset.precision, single_rule<AdamW>());
    const std::int64_t bytes = bytes_per_parameter(preset.precision);
    expected.push_back(cat(join({preset.name, load, mixed, preparation, training, optimizer}, " "), " ", bytes));
    manual.push_back(format("%-12s %-5s %-16s %-18s %-9s %-9s %3d", preset.name, load.c_str(), mixed.c_str(),
                            preparation.c_str(), training.c_str(), optimizer.c_str(), static_cast<int>(bytes)));
  }
  for (std::vector<std::string> row : test::doc_table("../docs/precision.md", "| `--precision` |")) {
    row.at(0) = row.at(0).substr(0, row.at(0).find(' '));  // without the flag of the same name
    documented.push_back(join(row, " "));
  }
  CHECK(documented == expected);
  CHECK(read_file("../man/mtl-train.1.scd").find(cat("\n", join(manual, "\n"), "\n```")) != std::string::npos);
}

TEST_CASE("precision presets: the bytes per parameter of each role, in bf16 and with bf16 main gradients") {
  auto roles = [](const Precision& precision) {
    std::string out;
    for (const PrecisionRole& role : precision_roles(precision, single_rule<AdamW>(), {}))
      out +=
          cat(role.role, " ", short_name(role.dtype), " ", role.bytes(), role.zero_stage == 1 ? " shared out; " : "; ");
    return out;
  };
  Precision bf16 = find_precision("bf16");
  CHECK(roles(bf16) ==
        "weights bf16 2; main gradients fp32 4; first moments fp32 4 shared out; second moments fp32 4 shared out; "
        "main weights fp32 4 shared out; ");
  bf16.main_grads = DType::bf16;
  CHECK(bytes_per_parameter(bf16) == 16);
  CHECK(roles(find_precision("fsdp-low")) ==
        "weights bf16 2; main gradients bf16 2; first moments bf16 2 shared out; second moments bf16 2 shared out; ");
  Precision mixed = kPrecisionFp32;
  mixed.exp_avg = DType::bf16;
  CHECK(precision_row(mixed, single_rule<AdamW>()).optimizer == "bf16, fp32");
}
