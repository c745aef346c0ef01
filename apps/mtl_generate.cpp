// mtl-generate: continues prompts with a model.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "base/count_of.h"
#include "base/heartbeat.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/eval/model.h"
#include "cli/flags/tokenizer_flags.h"
#include "cli/single_process.h"
#include "eval/completion_text.h"
#include "eval/generate.h"
#include "eval/prompts.h"

using namespace mtl;

namespace {

/// The values of all flags.
struct GenerateOptions {
  ModelOptions model;
  std::vector<std::string> prompts;
  std::string input;             // prompt file if `prompts` is empty; empty or "-": standard input
  bool ids = false;              // prompts are token ids, and ids are printed
  GenerationOptions generation;  // without `stops`
  std::int64_t num_samples = 1;  // continuations of each prompt
  bool ignore_eos = false;
  bool json_lines = false;
  bool logprobs = false;  // print the new tokens' log-probabilities in the JSON lines
  std::int64_t batch_size = 1;

  /// True if each token is printed when it is drawn.
  bool streams_tokens() const { return batch_size == 1 && !json_lines; }
};

void add_sampling_flags(Flags& flags, GenerationOptions& options) {
  SamplingOptions& sampling = options.sampling;
  flags.add("--temperature", &sampling.temperature, "X", "divide the logits by X; below 1 favors likely tokens",
            at_least(0));
  flags.add("--top-k", &sampling.top_k, "K", "draw from the K most likely tokens; 0: from all", within({0, INT32_MAX}));
  flags.add("--top-p", &sampling.top_p, "P",
            "draw from the smallest set of likeliest tokens whose probabilities sum to more than P; 0: from all",
            within({0, 1}));
  flags.add("--seed", &options.seed, "N", "random seed for the draws", within({0, UINT32_MAX}));
}

void add_flags(Flags& flags, GenerateOptions& options) {
  add_model_flags(flags, options.model);
  flags.section("Prompts");
  flags.add("--prompt", &options.prompts, "TEXT", "text to continue; repeatable", repeat, or_blank);
  flags.add("--input", &options.input, "FILE",
            "file with one prompt per line, or JSON lines with the key prompt (default: `-`, standard input)");
  flags.add_switch("--ids", options.ids,
                   "read prompts as token ids separated by spaces, and print new ids instead of text");
  flags.section("Continuation");
  GenerationOptions& generation = options.generation;
  flags.add("--max-new-tokens", &generation.max_new_tokens, "N", "largest number of tokens to add to a prompt",
            within({0, INT32_MAX}));
  flags.add_switch("--greedy", generation.greedy, "take the most likely token instead of drawing one");
  const auto draws = [&generation] { return !generation.greedy; };
  flags.only_with("with --greedy", draws, [&] { add_sampling_flags(flags, generation); });
  flags.add("--num-samples", &options.num_samples, "N", "continuations per prompt", within({1, 1 << 20}));
  flags.add_switch("--ignore-eos", options.ignore_eos, "continue after the end-of-document token");
  flags.section("Output");
  flags.add_switch("--json-lines,--json", options.json_lines, "print one JSON object per line");
  flags.add_switch("--logprobs", options.logprobs,
                   "with --json-lines: print the log-probability of every new token, too",
                   needs("--json-lines", [&options] { return options.json_lines; }));
  add_tokenizer_flags(flags, options.model.tokenizer);
  flags.section("Running");
  flags.add("--batch-size", &options.batch_size, "N",
            "prompts per forward pass; above 1, answers wait until N prompts have been read", within({1, 1 << 20}));
  add_running_flags(flags, options.model);
}

void check(Flags& flags, const GenerateOptions& options) {
  if (options.generation.sampling.temperature == 0)
    flags.problem("--temperature 0", "must be above 0; for the most likely token use --greedy");
  if (!options.prompts.empty() && !options.input.empty()) flags.problem("--prompt, --input", "use only one of them");
  check_model_tokenizer_flags(flags, options.model.tokenizer);
}

/// Returns the token that replaces an empty prompt, the end-of-document token, or nullopt if unknown.
std::optional<std::int32_t> first_token(const Tokenizer* tokenizer, const std::vector<std::int32_t>& ends) {
  if (tokenizer != nullptr) return tokenizer->eod();
  return ends.empty() ? std::nullopt : std::optional(ends.front());
}

/// Prints completions as text, ids or JSON lines.
class Printer {
 public:
  Printer(const GenerateOptions& options, const Tokenizer* tokenizer, std::vector<std::int32_t> stops)
      : options_(options), tokenizer_(tokenizer), stops_(std::move(stops)) {}

  /// begin(), token() and end() stream one completion.
  void begin(const Prompt& prompt) {
    is_first_ = true;
    if (options_.ids) return;
    text_.emplace(*tokenizer_, stops_, prompt.ids.back());
    write_out(prompt.text);
  }
  void token(std::int32_t id) {
    write_out(options_.ids ? cat(is_first_ ? "" : " ", id) : text_->push(id));
    is_first_ = false;
  }
  void end() { write_out((options_.ids ? "" : text_->finish()) + "\n"); }

  /// Prints a whole completion.
  void print(const Prompt& prompt, std::int64_t sample, const Completion& completion) {
    if (options_.json_lines) return print_json(prompt, sample, completion);
    begin(prompt);
    for (std::int32_t id : completion.ids) token(id);
    end();
  }

 private:
  void print_json(const Prompt& prompt, std::int64_t sample, const Completion& completion) const {
    Json line = Json::object({{"prompt", decode_lossy(prompt.text)}});
    if (tokenizer_ != nullptr) line.set("completion", text_of(prompt, completion));
    line.set("ids", Json::Array(completion.ids.begin(), completion.ids.end()));
    line.set("stop", completion.stopped ? "eos" : "length");
    if (options_.num_samples > 1) line.set("sample", sample);
    if (options_.logprobs) line.set("logprobs", Json::Array(completion.logprobs.begin(), completion.logprobs.end()));
    write_out(line.dump() + "\n");
  }
  static void write_out(const std::string& text) {
    print_out(text);
    flush_out();
  }
  std::string text_of(const Prompt& prompt, const Completion& completion) const {
    CompletionText text(*tokenizer_, stops_, prompt.ids.back());
    std::string out;
    for (std::int32_t id : completion.ids) out += text.push(id);
    return out + text.finish();
  }

  const GenerateOptions& options_;
  const Tokenizer* tokenizer_;
  std::vector<std::int32_t> stops_;
  std::optional<CompletionText> text_;
  bool is_first_ = true;
};

/// One continuation of a prompt.
struct Task {
  std::shared_ptr<const Prompt> prompt;
  std::int64_t sample;
  std::uint64_t number;  // selects the task's random numbers
};

/// Continues and prints one batch. Returns true if a sequence used up the model's positions.
bool continue_batch(const GenerateOptions& options, const std::vector<Task>& tasks, Generator& generator,
                    Printer& printer) {
  const bool streams_tokens = options.streams_tokens();
  std::vector<Request> requests;
  for (const Task& task : tasks) requests.push_back({task.prompt->ids, task.number});
  generator.make_room(requests);  // an error precedes the output
  if (streams_tokens) printer.begin(*tasks[0].prompt);
  std::vector<Completion> results = generator.run(requests, [&](std::size_t, std::int32_t id) {
    if (streams_tokens) printer.token(id);
  });
  if (streams_tokens) printer.end();
  bool slid = false;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!streams_tokens) printer.print(*tasks[i].prompt, tasks[i].sample, results[i]);
    slid = slid || results[i].slides > 0;
  }
  return slid;
}

/// Continues every prompt `num_samples` times, and prints batch by batch. Reads only as many prompts as a batch needs.
/// Returns true if a sequence used up the model's positions.
bool continue_all(const GenerateOptions& options, Generator generator,
                  const std::function<std::optional<Prompt>()>& next_prompt, Printer printer) {
  std::shared_ptr<const Prompt> prompt;
  std::int64_t sample = options.num_samples;  // of the prompt, whose samples are all taken
  std::uint64_t number = 0;
  bool slid = false;
  while (true) {
    std::vector<Task> batch;
    while (std::ssize(batch) < options.batch_size) {
      if (sample == options.num_samples) {
        std::optional<Prompt> next = next_prompt();
        if (!next) break;
        prompt = std::make_shared<Prompt>(std::move(*next));
        sample = 0;
      }
      batch.push_back({prompt, sample++, number++});
    }
    if (batch.empty()) return slid;
    slid = continue_batch(options, batch, generator, printer) || slid;
  }
}

/// Prints continuations to stdout, each before reading the next prompt or, with batch_size above 1, each batch before
/// reading the next. If some input lines are not prompts, continues all others, then returns Exit::bad_data. Throws
/// UsageError if flags do not fit the model.
Exit generate(const GenerateOptions& options, Console& console) {
  ModelSource source = open_source(options.model, console);
  auto tokenizer = tokenizer_of_model(options.model.tokenizer, source, console);
  if (tokenizer == nullptr && !options.ids) {
    throw UsageError("--load " + options.model.load,
                     "has no tokenizer files; add --vocab-file and --merge-file or another "
                     "--tokenizer-type, or use prompts of token ids with --ids");
  }
  const std::vector<std::int32_t> ends = end_tokens(tokenizer.get(), source);
  const std::vector<std::int32_t> stops = options.ignore_eos ? std::vector<std::int32_t>() : ends;
  Model model = load_model(options.model, source, console);
  const PromptReader reader{
      .model = model, .tokenizer = tokenizer.get(), .ids = options.ids, .first = first_token(tokenizer.get(), ends)};
  PromptStream lines(reader, options.input.empty() ? "-" : options.input, console);
  const bool reads_stdin = options.prompts.empty() && lines.name() == input_name("-");
  if (reads_stdin) announce_terminal(console);
  const bool shows_tokens = options.streams_tokens() && is_terminal(STDOUT_FILENO);
  std::atomic<bool> is_reading = false;
  std::atomic<std::int64_t> prompts_begun = 0;
  const Heartbeat continuing(console, [&]() -> std::string {
    if (is_reading) return reads_stdin && is_terminal(STDIN_FILENO) ? "" : cat("waiting for ", lines.name());
    return shows_tokens ? "" : cat("continuing prompt ", with_commas(prompts_begun));
  });
  std::size_t prompts_read = 0;
  auto next_prompt = [&]() -> std::optional<Prompt> {
    std::optional<Prompt> prompt;
    if (options.prompts.empty()) {
      is_reading = true;
      prompt = lines.next();
      is_reading = false;
    } else if (prompts_read < options.prompts.size()) {
      prompt = reader.read_flag(options.prompts[prompts_read++]);
    }
    prompts_begun += prompt ? 1 : 0;
    if (prompt && std::ssize(prompt->ids) > model.positions())
      console.warn(cat(prompt->where, ": the prompt has ", count_of(std::ssize(prompt->ids), "token"),
                       ", but the model has ", count_of(model.positions(), "position"), "; using only the last ",
                       count_of(model.positions(), "token")));
    return prompt;
  };
  GenerationOptions generation = options.generation;
  generation.stops = stops;
  const bool slid = continue_all(options, {model, generation}, next_prompt, {options, tokenizer.get(), stops});
  if (slid)
    console.info(cat("generation continued from the last ", std::max<std::int64_t>(1, model.positions() / 2),
                     " tokens whenever all ", model.positions(), " positions of the model were full"));
  if (lines.bad_lines() == 0) return Exit::ok;
  if (lines.bad_lines() > 1)
    console.error(
        cat(lines.name(), ": ", lines.bad_lines(), " of ", count_of(lines.lines(), "line"), " are not prompts"));
  return Exit::bad_data;
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
