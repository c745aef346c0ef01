#include "comm/nccl_environment.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>

#include "base/str.h"

namespace mtl {

namespace {

/// If `text` occurs in NCCL's message, suggest `remedy`. We use the first matching entry.
struct Remedy {
  const char* text;
  const char* remedy;
};
constexpr const char* kFirewall =
    "a firewall may block TCP ports between the hosts; open those of /proc/sys/net/ipv4/ip_local_port_range, or choose "
    "another network with NCCL_SOCKET_IFNAME";
constexpr Remedy kRemedies[] = {
    {"uplicate GPU",
     "two ranks of a host use one GPU; start at most as many ranks per host as it has GPUs (--gpus-per-node, mpirun "
     "--map-by ppr:N:node, srun --ntasks-per-node=N)"},
    {"no socket interface found",
     "NCCL_SOCKET_IFNAME matches no network interface on this host; `ip -br address` lists them"},
    {"ootstrap",
     "the ranks' hosts do not reach each other; choose the network with NCCL_SOCKET_IFNAME, and open TCP "
     "ports between the hosts (those of /proc/sys/net/ipv4/ip_local_port_range)"},
    {"onnection refused", kFirewall},
    {"onnection timed out", kFirewall},
    {"onnection closed by remote peer", "a rank has ended, or its host is gone; look at the messages of other ranks"},
    {"remote process exited", "a rank has ended, or its host is gone; look at the messages of other ranks"},
    {"ibv_", "InfiniBand failed; NCCL_IB_DISABLE=1 communicates without it, NCCL_IB_HCA chooses an adapter"},
    {"shared memory", "/dev/shm is too small or not writable; enlarge it (docker run --shm-size=1g)"},
    {"/dev/shm", "/dev/shm is too small or not writable; enlarge it (docker run --shm-size=1g)"},
    {"out of memory", "the GPU has no memory left for NCCL's buffers; use a smaller micro-batch, or NCCL_BUFFSIZE"},
};

/// Returns true if `text`, the value of NCCL_SOCKET_IFNAME, selects the interface `name`. The value lists name prefixes
/// or, after "=", exact names. After "^", it lists interfaces to exclude.
bool chooses(std::string_view text, const std::string& name) {
  bool excludes = false, exact = false;
  for (; !text.empty() && (text[0] == '^' || text[0] == '='); text.remove_prefix(1)) {
    (text[0] == '^' ? excludes : exact) = true;
  }
  const auto names = split(std::string(text), ',');
  const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& each) {
    return exact ? name == each : name.starts_with(each.substr(0, each.find(':')));
  });
  return named != excludes;
}

void check_interface(const GetVariable& get, const std::vector<NetworkInterface>& interfaces,
                     std::vector<Problem>& out) {
  const char* value = get("NCCL_SOCKET_IFNAME");
  if (value == nullptr || interfaces.empty()) return;
  std::vector<std::string> names;
  for (const NetworkInterface& each : interfaces) {
    if (chooses(value, each.name)) return;
    names.push_back(cat(each.name, " (", each.address, ")"));
  }
  out.push_back({cat("NCCL_SOCKET_IFNAME=", value),
                 cat("matches no network interface on this host, which has ", join(names, ", "))});
}

void check_choice(const GetVariable& get, const char* name, const std::vector<std::string>& values,
                  std::vector<Problem>& out) {
  const char* value = get(name);
  if (value == nullptr) return;
  std::string upper = value;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  if (std::find(values.begin(), values.end(), upper) == values.end())
    out.push_back({cat(name, "=", value), cat("must be one of ", join(values, ", "))});
}

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  std::vector<NetworkInterface> out;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return out;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    const void* address = nullptr;
    if (family == AF_INET) address = &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr;
    if (family == AF_INET6) address = &reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr;
    char text[INET6_ADDRSTRLEN] = "";
    if (address == nullptr || ::inet_ntop(family, address, text, sizeof text) == nullptr) continue;
    const bool is_known = std::any_of(out.begin(), out.end(),
                                      [&](const NetworkInterface& known) { return known.name == each->ifa_name; });
    if (!is_known) out.push_back({each->ifa_name, text});
  }
  ::freeifaddrs(list);
  return out;
}

std::vector<Problem> nccl_problems(const GetVariable& get, const std::vector<NetworkInterface>& interfaces) {
  std::vector<Problem> out;
  check_interface(get, interfaces, out);
  check_choice(get, "NCCL_DEBUG", {"VERSION", "WARN", "INFO", "TRACE", "ABORT", "NONE"}, out);
  check_choice(get, "NCCL_IB_DISABLE", {"0", "1"}, out);
  check_choice(get, "NCCL_P2P_DISABLE", {"0", "1"}, out);
  check_choice(get, "CUDA_DEVICE_ORDER", {"PCI_BUS_ID", "FASTEST_FIRST"}, out);
  if (const char* value = get("CUDA_DEVICE_MAX_CONNECTIONS")) {
    const auto count = parse_int(value);
    if (!count || *count < 1 || *count > 32)
      out.push_back({cat("CUDA_DEVICE_MAX_CONNECTIONS=", value), "must be a number from 1 to 32"});
  }
  return out;
}

void set_nccl_defaults() { ::setenv("NCCL_ALGO", "^NVLS,NVLSTree", 0); }

std::string describe_unused_nccl_variables(const std::vector<std::string>& environment) {
  std::vector<std::string> names;
  std::string network;
  for (const std::string& each : environment) {
    if (!each.starts_with("NCCL_")) continue;
    names.push_back(each.substr(0, each.find('=')));
    if (names.back() == "NCCL_SOCKET_IFNAME")
      network = cat("; mpirun --mca btl_tcp_if_include NETWORK chooses a network for them (here ",
                    each.substr(names.back().size() + 1), ")");
  }
  if (names.empty()) return "";
  std::sort(names.begin(), names.end());
  return cat(join(names, ", "), names.size() == 1 ? " has" : " have",
             " no effect, because ranks on CPUs communicate by MPI alone", network);
}

std::string nccl_fault_text(const std::string& error, const char* last_error) {
  std::string text = error;
  if (last_error != nullptr && *last_error != '\0') text += cat(": ", last_error);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  for (const Remedy& known : kRemedies) {
    if (text.find(known.text) != std::string::npos) return cat(text, "; ", known.remedy);
  }
  return text + "; set NCCL_DEBUG=INFO to print NCCL's log";
}

}  // namespace mtl
