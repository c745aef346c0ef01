#include "train/choices_record.h"

#include <algorithm>

#include "base/error.h"

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

std::string SavedChoices::text() const { return to_json(*this).dump(); }
SavedChoices SavedChoices::parse(std::string_view text) { return from_json(Json::parse(text)); }

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

}  // namespace mtl
