// NCCL environment: the variables that control communication between GPUs. Needs no GPU.
#include "comm/nccl_environment.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>

using namespace mtl;

namespace {

const std::vector<NetworkInterface> kInterfaces = {{"lo", "127.0.0.1"}, {"eth0", "10.0.0.7"}, {"ib0", "10.1.0.7"}};

std::vector<Problem> problems_of(const std::map<std::string, std::string>& variables) {
  const GetVariable get = [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return nccl_problems(get, kInterfaces);
}

}  // namespace

TEST_CASE("nccl environment: refuses an interface that this host lacks, and lists those that it has") {
  for (const char* good : {"eth", "eth0", "eth1,ib", "=eth0", "^docker,lo", "^=lo", "ib0:0"}) {
    CAPTURE(good);
    CHECK(problems_of({{"NCCL_SOCKET_IFNAME", good}}).empty());
  }
  CHECK(nccl_problems([](const char*) { return "x"; }, {}).size() == 5);  // without interfaces, they are not compared
  for (const char* bad : {"eth1,eno2", "=eth", "^lo,eth,ib", "^=lo,eth0,ib0"}) {
    CAPTURE(bad);
    const std::vector<Problem> found = problems_of({{"NCCL_SOCKET_IFNAME", bad}});
    REQUIRE(found.size() == 1);
    CHECK(found[0].where == std::string("NCCL_SOCKET_IFNAME=") + bad);
    CHECK(found[0].what ==
          "matches no network interface on this host, which has lo (127.0.0.1), eth0 (10.0.0.7), ib0 (10.1.0.7)");
  }
}

TEST_CASE("nccl environment: refuses variables that would be ignored, accepts those of Megatron's scripts") {
  CHECK(problems_of({{"CUDA_DEVICE_MAX_CONNECTIONS", "1"},
                     {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                     {"NCCL_DEBUG", "info"},
                     {"NCCL_IB_DISABLE", "1"}})
            .empty());
  CHECK(problems_of({{"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
                     {"CUDA_DEVICE_ORDER", "fastest_first"},
                     {"NCCL_P2P_DISABLE", "0"},
                     {"NCCL_IB_DISABLE", "0"}})
            .empty());
  for (const char* count : {"33", "-1", "x"}) CHECK(problems_of({{"CUDA_DEVICE_MAX_CONNECTIONS", count}}).size() == 1);
  CHECK(problems_of({{"NCCL_P2P_DISABLE", "yes"}}).size() == 1);
  for (const char* level : {"VERSION", "WARN", "TRACE", "ABORT", "NONE"})
    CHECK(problems_of({{"NCCL_DEBUG", level}}).empty());
  for (const auto& [name, value] : std::map<std::string, std::string>{{"CUDA_DEVICE_MAX_CONNECTIONS", "0"},
                                                                      {"CUDA_DEVICE_ORDER", "BUS"},
                                                                      {"NCCL_DEBUG", "yes"},
                                                                      {"NCCL_IB_DISABLE", "true"}}) {
    const std::vector<Problem> found = problems_of({{name, value}});
    REQUIRE(found.size() == 1);
    CHECK(found[0].where == name + "=" + value);
  }
}

TEST_CASE("nccl environment: turns off algorithms that add in the network unless the user chooses") {
  ::setenv("NCCL_ALGO", "Tree", 1);
  set_nccl_defaults();
  CHECK(std::getenv("NCCL_ALGO") == std::string("Tree"));
  ::unsetenv("NCCL_ALGO");
  set_nccl_defaults();
  CHECK(std::getenv("NCCL_ALGO") == std::string("^NVLS,NVLSTree"));
  ::unsetenv("NCCL_ALGO");
}

TEST_CASE("nccl environment: variables without effect on CPUs are named, with what replaces them") {
  CHECK(describe_unused_nccl_variables({"PATH=/bin", "MY_NCCL_DEBUG=1"}).empty());
  CHECK(describe_unused_nccl_variables({"NCCL_IB_HCA=mlx5"}) ==
        "NCCL_IB_HCA has no effect, because ranks on CPUs communicate by MPI alone");
  CHECK(describe_unused_nccl_variables({"NCCL_SOCKET_IFNAME=eth1,eth2", "A=1", "NCCL_DEBUG=INFO"}) ==
        "NCCL_DEBUG, NCCL_SOCKET_IFNAME have no effect, because ranks on CPUs communicate by MPI alone; mpirun --mca "
        "btl_tcp_if_include NETWORK chooses a network for them (here eth1,eth2)");
}

TEST_CASE("nccl environment: errors name the remedy") {
  CHECK(nccl_fault_text("unhandled system error", "Bootstrap : no socket interface found\n")
            .find("system error: Bootstrap : no socket interface found; NCCL_SOCKET_IFNAME matches no") !=
        std::string::npos);
  CHECK(nccl_fault_text("invalid usage", "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000")
            .find("--gpus-per-node") != std::string::npos);
  CHECK(nccl_fault_text("remote error", "socketProgress: Connection closed by remote peer").find("a rank has ended") !=
        std::string::npos);
  for (const auto& [fault, remedy] :
       {std::pair("Bootstrap : no route", "do not reach each other"), std::pair("Connection refused", "a firewall may"),
        std::pair("Connection timed out", "a firewall may"), std::pair("remote process exited", "a rank has ended"),
        std::pair("ibv_create_qp failed", "InfiniBand failed"), std::pair("shared memory segment", "/dev/shm is too"),
        std::pair("open of /dev/shm/nccl-1", "/dev/shm is too"), std::pair("out of memory", "no memory left")}) {
    CAPTURE(fault);
    CHECK(nccl_fault_text("error", fault).find(cat("error: ", fault, "; ")) == 0);
    CHECK(nccl_fault_text("error", fault).find(remedy) != std::string::npos);
  }
  CHECK(nccl_fault_text("internal error \n ", "") == nccl_fault_text("internal error", nullptr));
  CHECK(nccl_fault_text("internal error", nullptr) == "internal error; set NCCL_DEBUG=INFO to print NCCL's log");
}

TEST_CASE("nccl environment: finds an interface of this host") { CHECK(!network_interfaces().empty()); }
