#include "cli/flags/update_rule_flags.h"

namespace mtl {

void add_update_rule_flag(Flags& flags, OptimizerOptions& optimizer) {
  flags.add("--optimizer", &optimizer.name, "NAME",
            "update rule: AdamW, SGD with momentum, or Muon for matrices and AdamW for the rest",
            one_of({"adam", "sgd", "muon"}));
}

void add_update_rule_flags(Flags& flags, OptimizerOptions& optimizer) {
  const auto is_named = [&optimizer](const char* name) {
    return [&optimizer, name] { return optimizer.name == name; };
  };
  flags.only_with(
      "with --optimizer sgd", [&optimizer] { return optimizer.name != "sgd"; },
      [&] {
        flags.add("--adam-beta1", &optimizer.adam_beta1, "X", "decay of the first moment", at_least(0), below(1));
        flags.add("--adam-beta2", &optimizer.adam_beta2, "X", "decay of the second moment", at_least(0), below(1));
        flags.add("--adam-eps", &optimizer.adam_eps, "X", "epsilon added to the square root of the second moment",
                  within({1e-30, 1e6}));
      });
  flags.add("--sgd-momentum", &optimizer.sgd_momentum, "X", "decay of the momentum", at_least(0), below(1),
            only_with("--optimizer sgd", is_named("sgd")));
  flags.only_with("--optimizer muon", is_named("muon"), [&] {
    MuonRuleOptions& muon = optimizer.muon;
    flags.add("--muon-momentum", &muon.momentum, "X", "decay of Muon's momentum", at_least(0), below(1));
    flags.add_switch("--muon-nesterov", muon.nesterov, "use Nesterov's momentum");
    flags.add_switch("--muon-no-split-qkv", optimizer.muon_no_split_qkv,
                     "update queries, keys and values as one matrix instead of three");
    flags.add_switch("--muon-no-position-embedding", optimizer.muon_no_positions,
                     "leave the position embedding to AdamW");
    flags.add("--muon-scale-mode", &optimizer.muon_scale_mode, "MODE", "scale of an update by the sizes of its matrix",
              one_of({kMuonScales.begin(), kMuonScales.end()}));
    flags.add("--muon-extra-scale-factor", &muon.extra_scale, "X", "further factor of all updates", within({0, 1e6}));
    flags.add("--muon-coefficient-type", &muon.coefficients, "NAME", "numbers of the Newton-Schulz iterations",
              one_of({kQuinticNames.begin(), kQuinticNames.end()}));
    flags.add("--muon-num-ns-steps", &muon.steps, "N", "Newton-Schulz iterations", within({1, 100}));
    flags.add("--muon-fp32-matmul-prec", &optimizer.muon_fp32_matmul_prec, "PREC",
              "products of the iterations: medium (bf16) or high (fp32); default: as --bf16 says",
              one_of({"medium", "high"}));
  });
}

}  // namespace mtl
