// Muon (Jordan et al. 2024), as in Megatron-LM: SGD with momentum for matrices, whose update is brought to singular
// values close to 1 by Newton-Schulz iterations (optim/newton_schulz.h). Other parameters need another rule.
//
// The fused weight of queries, keys and values is three matrices, unless the options say otherwise; that of a gated MLP
// is one, the gate's rows first. Every rank computes entire matrices, so the result does not depend on the layout.
#pragma once

#include <array>
#include <string>

#include "optim/newton_schulz.h"
#include "optim/update_rule.h"

namespace mtl {

/// How the scale of an update depends on the (out, in) matrix, by its name in --muon-scale-mode: sqrt(max(out, in)),
/// sqrt(max(1, out / in)) or sqrt(out / in).
enum class MuonScale { spectral, shape_scaling, unit_rms_norm };
inline constexpr std::array kMuonScales = {"spectral", "shape_scaling", "unit_rms_norm"};

struct MuonRuleOptions : MuonOptions {
  bool splits_qkv = true, takes_positions = true;
  MuonScale scale = MuonScale::spectral;
  double extra_scale = 1;
  std::string coefficients = "quintic";  // one of kQuinticNames
  std::int64_t steps = 5;
  DType compute = DType::f32;  // of the products, f32 or bf16
};

class Muon : public UpdateRule {
 public:
  explicit Muon(const MuonRuleOptions& options)
      : options_(options), steps_(quintic_steps(options.coefficients, options.steps)) {}
  const char* name() const override { return "muon"; }
  std::vector<StateSpec> states(const Precision& precision) const override {
    return {{"muon_momentum", precision.exp_avg, "momentum"}};
  }
  /// Takes the weights of linears and, if the options say so, the table of positions.
  bool takes(const ParamSpec& spec) const override;
  UpdateFactors factors(const StepInputs& step) const override;
  void update(Stream& stream, const UpdateRange& range, StepState* step) const override {
    descent_step(stream, range, step);
  }
  bool is_by_matrix() const override { return true; }
  void prepare(Stream& stream, const UpdateRange& range, StepState* step) const override {
    muon_momentum(stream, range, options_, step);
  }
  void transform(Stream& stream, Arena& scratch, const ProcessGroups& groups, const ParamSpec& spec,
                 Tensor part) const override;

 private:
  float scale_of(std::int64_t out, std::int64_t in) const;
  void transform_heads(Stream& stream, Arena& scratch, Tensor whole, std::int64_t first, std::int64_t count,
                       std::int64_t columns) const;

  MuonRuleOptions options_;
  std::vector<QuinticStep> steps_;
};

}  // namespace mtl
