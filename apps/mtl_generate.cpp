// mtl-generate: continues prompts with a model.
#include "cli/eval/generate_run.h"
#include "cli/flags/tokenizer_flags.h"
#include "cli/single_process.h"
#include "cli/thread_waits.h"

using namespace mtl;

namespace {

void add_sampling_flags(Flags& flags, GenerationOptions& options) {
  SamplingOptions& sampling = options.sampling;
  flags.add("--temperature", &sampling.temperature, "X", "divide the logits by X; below 1 favors likely tokens")
      .at_least(0);
  flags.add("--top-k", &sampling.top_k, "K", "draw from the K most likely tokens; 0: from all").within({0, INT32_MAX});
  flags
      .add("--top-p", &sampling.top_p, "P",
           "draw from the smallest set of likeliest tokens whose probabilities sum to more than P; 0: from all")
      .within({0, 1});
  flags.add("--seed", &options.seed, "N", "random seed for the draws").within({0, UINT32_MAX});
}

void add_flags(Flags& flags, GenerateOptions& options) {
  add_model_flags(flags, options.model);
  flags.section("Prompts");
  flags.add("--prompt", &options.prompts, "TEXT", "text to continue; repeatable").repeat().or_blank();
  flags.add("--input", &options.input, "FILE",
            "file with one prompt per line, or JSON lines with the key prompt (default: `-`, standard input)");
  flags.add_switch("--ids", options.ids,
                   "read prompts as token ids separated by spaces, and print new ids instead of text");
  flags.section("Continuation");
  GenerationOptions& generation = options.generation;
  flags.add("--max-new-tokens", &generation.max_new_tokens, "N", "largest number of tokens to add to a prompt")
      .within({0, INT32_MAX});
  flags.add_switch("--greedy", generation.greedy, "take the most likely token instead of drawing one");
  const auto draws = [&generation] { return !generation.greedy; };
  flags.only_with("with --greedy", draws, [&] { add_sampling_flags(flags, generation); });
  flags.add("--num-samples", &options.num_samples, "N", "continuations per prompt").within({1, 1 << 20});
  flags.add_switch("--ignore-eos", options.ignore_eos, "continue after the end-of-document token");
  flags.section("Output");
  flags.add_switch("--json-lines,--json", options.json_lines, "print one JSON object per line");
  flags
      .add_switch("--logprobs", options.logprobs,
                  "with --json-lines: print the log-probability of every new token, too")
      .needs("--json-lines", [&options] { return options.json_lines; });
  add_tokenizer_flags(flags, options.model.tokenizer);
  flags.section("Running");
  flags
      .add("--batch-size", &options.batch_size, "N",
           "prompts per forward pass; above 1, answers wait until N prompts have been read")
      .within({1, 1 << 20});
  add_running_flags(flags, options.model);
}

void check(Flags& flags, const GenerateOptions& options) {
  if (options.generation.sampling.temperature == 0)
    flags.problem("--temperature 0", "must be above 0; for the most likely token use --greedy");
  if (!options.prompts.empty() && !options.input.empty()) flags.problem("--prompt, --input", "use only one of them");
  check_model_tokenizer_flags(flags, options.model.tokenizer);
}

}  // namespace

int main(int argc, char** argv) {
  keep_thread_waits_short(argv);
  GenerateOptions options;
  Flags flags("mtl-generate", "continue prompts with a model");
  add_flags(flags, options);
  flags.check([&] { check(flags, options); });
  return run_single_process(flags, argc, argv, [&](Console& console) { return generate(options, console); });
}
