#include "train/run_choices.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "comm/text_exchange.h"
#include "device/choices_file.h"
#include "kernels/choices_context.h"

namespace mtl {

namespace {

Json to_json(const SavedChoices& choices) {
  Json table = Json::object();
  for (const auto& [key, choice] : choices.table) table.set(key, choice);
  return Json::object({{"context", choices.context}, {"choices", std::move(table)}});
}

SavedChoices from_json(const Json& json) {
  SavedChoices out{json.at("context").as_string(), {}};
  for (const auto& [key, choice] : json.at("choices").as_object()) out.table[key] = choice.as_string();
  return out;
}

}  // namespace

Json choices_record(const std::vector<SavedChoices>& by_rank) {
  std::vector<SavedChoices> tables;
  Json of_rank = Json::array();
  for (const SavedChoices& choices : by_rank) {
    const auto at = std::find(tables.begin(), tables.end(), choices);
    of_rank.push(std::int64_t{at - tables.begin()});
    if (at == tables.end()) tables.push_back(choices);
  }
  Json all = Json::array();
  for (const SavedChoices& table : tables) all.push(to_json(table));
  return Json::object({{"tables", std::move(all)}, {"of_rank", std::move(of_rank)}});
}

std::map<std::string, std::string> agreed_table(const SavedChoices& own, const std::vector<SavedChoices>& by_rank) {
  std::map<std::string, std::string> agreed;
  for (const SavedChoices& choices : by_rank) {
    if (choices.context != own.context) continue;
    for (const auto& [key, choice] : choices.table)
      if (own.table.contains(key)) agreed.emplace(key, choice);
  }
  return agreed;
}

std::optional<SavedChoices> choices_of_rank(const Json& record, int rank, int ranks) {
  const Json::Array &of_rank = record.at("of_rank").as_array(), &tables = record.at("tables").as_array();
  if (std::ssize(of_rank) != ranks) return {};
  const std::int64_t table = of_rank[rank].as_int();
  if (table < 0 || table >= std::ssize(tables))
    fail(Exit::bad_data, "the checkpoint lacks table ", table, " of its algorithm choices; load another checkpoint");
  return from_json(tables[table]);
}

RunChoices::RunChoices(StepRunner& steps, Communicator& world, Console& console)
    : steps_(steps), world_(world), console_(console) {}

void RunChoices::load(const Json& extra, const std::string& tuning_cache) {
  context_ = choices_context(steps_.shape().device);
  if (context_.empty()) return;
  if (const Json* record = extra.is_object() ? extra.find("choices") : nullptr) {
    const std::optional<SavedChoices> saved = choices_of_rank(*record, world_.rank(), world_.size());
    agreed_ = saved.has_value();  // the same on all ranks
    if (saved && saved->context == context_) {
      steps_.stream().choices().add(saved->table);
    } else if (saved) {
      console_.info(cat("algorithms are measured again: the checkpoint has choices for ", saved->context,
                        ", but this is ", context_, "; the last bits of the losses may differ from that run's"));
    }
  }
  file_ = tuning_cache.empty() ? default_choices_file() : tuning_cache;
  if (file_ == "none") file_.clear();
  if (file_.empty()) return;
  in_file_ = read_choices(file_, context_, [&](const std::string& what) {
    if (world_.rank() == 0) console_.warn(what);
  });
  steps_.stream().choices().add(in_file_);
}

void RunChoices::agree(const StepBatch& batch) {
  if (std::exchange(agreed_, true) || context_.empty() || world_.size() == 1) return;
  steps_.rehearse(batch);
  Stream& stream = steps_.stream();
  const SavedChoices own{context_, stream.choices().table()};
  for (const auto& [key, choice] : agreed_table(own, gather())) stream.choices().set(key, choice);
  stream.cache().reset();  // plans with the algorithms that this rank measured
  steps_.traffic().begin_step();
}

Json RunChoices::record() { return context_.empty() ? Json() : choices_record(gather()); }

/// Returns every rank's choices. Rank 0 adds new ones to the file.
std::vector<SavedChoices> RunChoices::gather() {
  std::vector<SavedChoices> out;
  if (context_.empty()) return out;
  const SavedChoices own{context_, steps_.stream().choices().table()};
  for (const std::string& text : gather_texts(world_, to_json(own).dump())) out.push_back(from_json(Json::parse(text)));
  if (world_.rank() != 0 || file_.empty()) return out;
  std::map<std::string, std::string> all;
  for (const SavedChoices& choices : out) {
    if (choices.context == context_) all.insert(choices.table.begin(), choices.table.end());
  }
  if (all == in_file_) return out;
  write_choices(file_, context_, all, [&](const std::string& what) { console_.warn(what); });
  in_file_ = all;
  return out;
}

}  // namespace mtl
