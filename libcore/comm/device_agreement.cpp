#include "comm/device_agreement.h"

#include <algorithm>
#include <map>

#include "base/count_of.h"
#include "comm/nccl_environment.h"
#include "comm/rank_outcome.h"
#include "comm/text_exchange.h"

namespace mtl {

namespace {

constexpr char kSeparator = '\n';

/// Returns "computing on 8 GPUs (NVIDIA H100 80GB HBM3)". If there are several kinds of GPUs, lists how many there are
/// and the first rank with each, and says what mixing them means for the run.
std::string gpus_text(const std::vector<std::vector<std::string>>& ranks, const std::vector<std::string>& hosts) {
  struct Kind {
    int count = 0;
    std::size_t first = 0;
  };
  std::map<std::string, Kind> kinds;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    Kind& kind = kinds.insert({ranks[rank][1], {0, rank}}).first->second;
    ++kind.count;
  }
  if (kinds.size() == 1) return cat("computing on ", count_of(ranks.size(), "GPU"), " (", ranks[0][1], ")");
  const auto text = [&](const auto& kind) {
    const auto& [count, first] = kind.second;
    return cat(count, " x ", kind.first, " (first: rank ", first, " on ", hosts[first], ")");
  };
  return cat("computing on ", ranks.size(), " GPUs of different kinds: ", join(kinds, ", ", text),
             "; the slowest one sets the pace, and each measures algorithms of its own");
}

/// Says which ranks share a GPU, if any do on the same host; otherwise returns "".
std::string shared_gpu(const std::vector<std::vector<std::string>>& ranks, const std::vector<std::string>& hosts) {
  std::map<std::pair<std::string, std::string>, std::size_t> owners;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto [owner, is_new] = owners.insert({{hosts[rank], ranks[rank][2]}, rank});
    if (is_new) continue;
    return cat("ranks ", owner->second, " and ", rank, " of ", hosts[rank], " have the same GPU (", ranks[rank][2],
               "); start at most as many ranks per host as it has GPUs, and let every rank see all of them, or one of "
               "its own (srun --gpus-per-task=1)");
  }
  return "";
}

}  // namespace

GpuPlace gpu_of_rank(const RankEnvironment& launched, int visible, std::optional<std::int64_t> most,
                     const GetVariable& get) {
  const int local = launched.local_size;
  if (most && local > *most)
    return {0, cat(local, " ranks run on this host, but --gpus-per-node is ", *most, "; start at most ", *most,
                   " per host: mpirun --map-by ppr:", *most, ":node, or srun --ntasks-per-node=", *most)};
  if (launched.local_rank < visible && local <= visible) return {launched.local_rank, ""};
  if (get("NCCL_HOSTID") != nullptr) return {launched.local_rank % std::max(1, visible), ""};
  if (visible == 1 && get("CUDA_VISIBLE_DEVICES") != nullptr) return {0, ""};
  return {0, cat(local, " ranks run on this host, which shows ", visible == 1 ? "only " : "", count_of(visible, "GPU"),
                 " to them; start at most ", visible, " per host (mpirun --map-by ppr:", visible,
                 ":node, srun --ntasks-per-node=", visible, "), or set CUDA_VISIBLE_DEVICES to more GPUs")};
}

RankDevice choose_rank_device(const std::string& name, bool dry, const RankEnvironment& launched,
                              std::optional<std::int64_t> most) {
  RankDevice out;
  if (launched.world == 1 || dry || name == "cpu") {
    out.choice = choose_device(name, dry);
    return out;
  }
  CudaDevice found = find_cuda_device();
  if (found.usable()) {
    const GpuPlace place = gpu_of_rank(launched, found.count, most, ::getenv);
    out.ordinal = place.ordinal;
    if (place.ordinal > 0) found = find_cuda_device(place.ordinal);
    if (found.usable()) found.why_not = place.problem;
  }
  out.name = found.text();
  out.bus = found.bus;
  out.choice = describe_choice(name, found);
  if (out.choice.device != Device::cuda) return out;
  // This is a problem even for auto, so that a mistyped variable does not leave GPUs idle.
  const auto text = [](const Problem& problem) { return cat(problem.where, " ", problem.what); };
  out.choice.problem = join(nccl_problems(::getenv, network_interfaces()), "; ", text);
  return out;
}

DeviceChoice agree_on_device(const std::string& name, const RankDevice& own, const std::vector<std::string>& hosts,
                             Communicator& world, const GetVariable& get) {
  const bool is_cuda = own.choice.device == Device::cuda;
  const std::string offer = is_cuda ? cat("cuda", kSeparator, own.name, kSeparator, own.bus)
                                    : cat("cpu", kSeparator, own.choice.why_not, kSeparator);
  std::vector<std::vector<std::string>> ranks;
  for (const std::string& text : gather_texts(world, offer)) ranks.push_back(split(text, kSeparator));
  DeviceChoice out;
  const bool any_gpu = std::ranges::any_of(ranks, [](const auto& rank) { return rank[0] == "cuda"; });
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank][0] == "cuda") continue;
    const std::string why = ranks[rank][1].empty() ? "no NVIDIA driver is installed there" : ranks[rank][1];
    if (name != "cpu" && (any_gpu || !ranks[rank][1].empty()))
      out.text = cat("computing on the CPUs, because of rank ", rank, " (", hosts[rank], "): ", why);
    return out;
  }
  const std::string shared = get("NCCL_HOSTID") == nullptr ? shared_gpu(ranks, hosts) : "";
  if (!shared.empty() && name == "cuda") throw UsageError("--device cuda", shared);
  if (!shared.empty()) {
    out.text = "computing on the CPUs: " + shared;
    return out;
  }
  out.device = Device::cuda;
  out.text = gpus_text(ranks, hosts);
  return out;
}

RankMemory least_free_memory(const std::function<CudaMemory()>& own, Communicator& world) {
  const auto text = [&] {
    const CudaMemory memory = own();
    return cat(memory.free, kSeparator, memory.total);
  };
  std::vector<RankMemory> ranks;
  for (const std::string& answer : work_on_every_rank(world, text)) {
    const std::vector<std::string> bytes = split(answer, kSeparator);
    ranks.push_back({static_cast<int>(ranks.size()), {std::stoull(bytes.at(0)), std::stoull(bytes.at(1))}});
  }
  return *std::ranges::min_element(ranks, {}, [](const RankMemory& rank) { return rank.memory.free; });
}

}  // namespace mtl
