// mtl-generate: continues prompts with a model.
#include "cli/alone.h"
#include "cli/device_flags.h"
#include "cli/eval_tokenizer.h"
#include "cli/generate_run.h"
#include "cli/model_flags.h"
#include "cli/thread_waits.h"
#include "cli/tokenizer_flags.h"

using namespace mtl;

namespace {

void add_flags(Flags& flags, GenerateOptions& options) {
  flags.section("Model");
  flags.add("--load", &options.load, "PATH", "the model: a checkpoint, a Hugging Face folder, or Megatron-LM's")
      .required();
  add_heads_flag(flags, options.num_attention_heads);
  add_compute_flag(flags, options.dtype);
  flags.section("Prompts; from standard input when neither is given");
  flags.add("--prompt", &options.prompts, "TEXT", "a text to continue; may be repeated").repeat();
  flags.add("--input", &options.input, "FILE",
            "a prompt a line, or JSON lines with the key prompt; `-` is standard input");
  flags.add_switch("--ids", options.ids, "prompts are token ids separated by blanks; print the new ids, not text");
  flags.section("Continuation");
  flags.add("--max-new-tokens", &options.max_new_tokens, "N", "the most tokens to add to a prompt")
      .within({0, INT32_MAX});
  flags.add_switch("--greedy", options.greedy, "always the most likely token; otherwise tokens are drawn");
  flags
      .add("--temperature", &options.sampling.temperature, "X",
           "divides the logits: below 1 the likely becomes likelier")
      .at_least(0)
      .only_with("with --greedy", [&options] { return !options.greedy; });
  flags.add("--top-k", &options.sampling.top_k, "K", "draw from the K most likely tokens; 0: from all")
      .within({0, INT32_MAX})
      .only_with("with --greedy", [&options] { return !options.greedy; });
  flags
      .add("--top-p", &options.sampling.top_p, "P",
           "draw from the likeliest tokens whose probabilities together exceed P; 0: from all")
      .within({0, 1})
      .only_with("with --greedy", [&options] { return !options.greedy; });
  flags.add("--seed", &options.seed, "N", "seed of the draws")
      .within({0, UINT32_MAX})
      .only_with("with --greedy", [&options] { return !options.greedy; });
  flags.add("--num-samples", &options.num_samples, "N", "continuations of each prompt").within({1, 1 << 20});
  flags.add_switch("--ignore-eos", options.ignore_eos, "continue after the end-of-document token");
  flags.section("Output");
  flags.add_switch("--json-lines,--json", options.json_lines, "print a JSON object a line");
  flags.add_switch("--logprobs", options.logprobs, "with --json-lines: the log-probability of every new token")
      .needs("--json-lines", [&options] { return options.json_lines; });
  add_tokenizer_flags(flags, options.tokenizer);
  flags.section("Running");
  flags
      .add("--batch-size", &options.batch_size, "N",
           "prompts at a time; above 1 they are answered when N have been read")
      .within({1, 1 << 20});
  add_device_flag(flags, options.device);
  add_threads_flag(flags, options.threads);
}

void check(Flags& flags, const GenerateOptions& options) {
  if (options.sampling.temperature == 0)
    flags.problem("--temperature 0", "must be above 0; for the most likely token use --greedy");
  if (!options.prompts.empty() && !options.input.empty()) flags.problem("--prompt, --input", "give one of them");
  check_model_tokenizer_flags(flags, options.tokenizer);
}

}  // namespace

int main(int argc, char** argv) {
  keep_thread_waits_short(argv);
  GenerateOptions options;
  Flags flags("mtl-generate", "continues prompts with a model");
  add_flags(flags, options);
  flags.check([&] { check(flags, options); });
  return run_alone(flags, argc, argv, [&](Console& console) { return generate(options, console); });
}
