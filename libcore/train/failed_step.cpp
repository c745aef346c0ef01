#include "train/failed_step.h"

#include <algorithm>
#include <set>

#include "base/printable.h"
#include "base/str.h"

namespace mtl {

namespace {

/// Joins hosts, each of them once, in order.
std::string join_hosts(const std::set<std::string>& hosts) {
  return join(std::vector<std::string>(hosts.begin(), hosts.end()), ", ");
}

}  // namespace

Json RankResult::to_json() const {
  return Json::object(
      {{"host", host}, {"platform", platform}, {"state", state}, {"gradients", gradients}, {"sums", sums}});
}

RankResult RankResult::from_json(const Json& json) {
  return {json.at("host").as_string(), json.at("platform").as_string(), json.at("state").as_int(),
          json.at("gradients").as_int(), json.at("sums").as_int()};
}

std::string FailedStep::to_text() const {
  Json all = Json::array();
  for (const RankResult& rank : ranks) all.push(rank.to_json());
  return Json::object({{"iteration", iteration}, {"failure", failure}, {"ranks", std::move(all)}}).dump() + "\n";
}

FailedStep FailedStep::from_text(const std::string& text, const std::string& path) try {
  const Json json = Json::parse(text);
  FailedStep step{json.at("iteration").as_int(), json.at("failure").as_string()};
  for (const Json& rank : json.at("ranks").as_array()) step.ranks.push_back(RankResult::from_json(rank));
  if (step.iteration < 1 || step.ranks.empty()) fail(Exit::bad_data, "this is no step of a run");
  return step;
} catch (const Error& error) {
  fail(Exit::bad_data, path, ": ", error.what(), "; remove the file to go on without the comparison that it is for");
}

std::string describe_differences(const std::vector<RankResult>& first, const std::vector<RankResult>& second) {
  std::vector<std::string> lines;
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    if (first[rank].computed_same(second[rank])) continue;
    const bool is_own = first[rank].gradients != second[rank].gradients;
    lines.push_back(
        cat("rank ", rank, " (", second[rank].host, "): other ", is_own ? "gradients" : "sums of gradients"));
  }
  return join(lines, ", ");
}

bool FailedStep::is_same_step(const std::vector<RankResult>& now) const {
  if (now.size() != ranks.size()) return true;  // they divide the state in another way, which cannot be compared
  return std::ranges::equal(now, ranks, {}, &RankResult::state, &RankResult::state);
}

FailedStep::Conclusion FailedStep::conclude(const std::vector<RankResult>& now, const std::string& failure_now) const {
  const std::string again = cat("failed before (", printable_text(failure), "), ");
  const char* own_failure = "the result is right, and the model or its data are at fault";
  const bool is_comparable = std::ranges::equal(now, ranks, {}, &RankResult::platform, &RankResult::platform);
  std::set<std::string> hosts, suspects, unmoved;
  for (const RankResult& rank : ranks) hosts.insert(printable_text(rank.host));
  for (std::size_t rank = 0; rank < now.size(); ++rank) {
    const std::string host = printable_text(now[rank].host);
    if (is_comparable && !now[rank].computed_same(ranks[rank])) suspects.insert(printable_text(ranks[rank].host));
    if (is_comparable ? now[rank].host == ranks[rank].host : hosts.contains(host)) unmoved.insert(host);
  }
  if (failure_now.empty() && !is_comparable)
    return {Exit::ok, cat(again, "but not now, on another number of ranks or another kind of machine: one of ",
                          join_hosts(hosts), " computes wrong, unless other rounding avoids the failure")};
  if (failure_now.empty() && suspects.empty())
    return {Exit::ok, again + "and has the same gradients now, but the flags no longer make this a failure"};
  if (failure_now.empty())
    return {Exit::ok, cat(again, "but not now, with other gradients of the ranks that were on ", join_hosts(suspects),
                          ": one of these machines computes wrong; leave them out")};
  if (!suspects.empty())
    return {Exit::corrupt, cat(again, "and fails now with other gradients of the ranks that were on ",
                               join_hosts(suspects), ": a machine computes wrong, one of these or of those now")};
  if (!unmoved.empty())
    return {Exit::recheck, cat(again, "and fails again, but on the same machines: ", join_hosts(unmoved),
                               "; start the same command on others to tell whether these compute wrong")};
  if (!is_comparable)
    return {
        Exit::corrupt,
        cat(again, "and fails on another number of ranks or another kind of machine, too: probably, ", own_failure)};
  return {Exit::corrupt, cat(again, "and fails in the same way on other machines: ", own_failure)};
}

}  // namespace mtl
