#include "comm/mpi_wire.h"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <list>

#include "base/console.h"
#include "base/error.h"
#include "comm/communicator.h"

namespace mtl {

namespace {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommunicationError(cat(call, ": ", std::string(text, length)));
}

}  // namespace

struct MpiWire::Mpi {
  struct Group {
    MPI_Comm comm;
    std::vector<int> ranks;
  };
  /// A message in flight. Its MPI_Request is stored separately.
  struct Pending {
    int* counter;
    const OperationLabel* label;
    std::size_t bytes;
    int group;
    int from;  // the sender as a rank of the job; -1 if this rank sends
    bool is_abandoned = false;
  };
  std::vector<Group> groups;
  // Messages in flight: requests[i] belongs to pending[i]. The requests have a separate vector because MPI_Testsome
  // takes an array.
  std::vector<MPI_Request> requests;
  std::vector<Pending> pending;
  std::vector<int> done;
  std::vector<MPI_Status> statuses;

  struct Posted {
    std::string text;
    MPI_Request request;
  };
  MPI_Comm control = MPI_COMM_NULL;
  std::list<Posted> posted;
  std::vector<char> incoming = std::vector<char>(kMaxControlBytes);
  MPI_Request next = MPI_REQUEST_NULL;

  void await_control_message() {
    check(MPI_Irecv(incoming.data(), static_cast<int>(kMaxControlBytes), MPI_CHAR, MPI_ANY_SOURCE, 0, control, &next),
          "MPI_Irecv");
  }
  /// Starts a message with `call`, which is MPI_Isend or MPI_Irecv.
  template <class Call>
  void start(Call call, const char* name, const Message& message, int from) {
    MPI_Request request;
    check(call(message.data, static_cast<int>(message.bytes), MPI_BYTE, message.peer, message.tag,
               groups[message.group].comm, &request),
          name);
    requests.push_back(request);
    pending.push_back({message.pending, message.label, message.bytes, message.group, from});
    ++*message.pending;
  }
  void remove(std::size_t at) {
    requests[at] = requests.back();
    pending[at] = pending.back();
    requests.pop_back();
    pending.pop_back();
  }
};

MpiWire::MpiWire(int rank, int world)
    : rank_(rank), world_(world), last_messages_(world), mpi_(std::make_unique<Mpi>()) {
  int provided = 0, seen_rank = 0, seen_world = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  threads_may_take_turns_ = provided >= MPI_THREAD_SERIALIZED;
  MPI_Comm_rank(MPI_COMM_WORLD, &seen_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &seen_world);
  if (seen_rank != rank || seen_world != world)
    fail(Exit::failure, "the launcher started rank ", rank, " of ", world, ", but MPI sees rank ", seen_rank, " of ",
         seen_world, "; use the mpirun of the MPI library that this program loads (ldd shows which)");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check(MPI_Comm_dup(MPI_COMM_WORLD, &mpi_->control), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(mpi_->control, MPI_ERRORS_RETURN);
  mpi_->await_control_message();
}

MpiWire::~MpiWire() = default;

int MpiWire::make_group(const std::vector<int>& ranks) {
  MPI_Group world, members;
  MPI_Comm comm;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &members), "MPI_Group_incl");
  check(MPI_Comm_create_group(MPI_COMM_WORLD, members, 1, &comm), "MPI_Comm_create_group");
  MPI_Group_free(&members);
  MPI_Group_free(&world);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  mpi_->groups.push_back({comm, ranks});
  return static_cast<int>(mpi_->groups.size()) - 1;
}

void MpiWire::send(const Message& message) { mpi_->start(MPI_Isend, "MPI_Isend", message, -1); }

void MpiWire::receive(const Message& message) {
  mpi_->start(MPI_Irecv, "MPI_Irecv", message, mpi_->groups[message.group].ranks[message.peer]);
}

int MpiWire::poll() {
  Mpi& mpi = *mpi_;
  if (mpi.requests.empty()) return 0;
  int count = 0;
  mpi.done.resize(mpi.requests.size());
  mpi.statuses.resize(mpi.requests.size());
  int code = MPI_Testsome(static_cast<int>(mpi.requests.size()), mpi.requests.data(), &count, mpi.done.data(),
                          mpi.statuses.data());
  if (count == MPI_UNDEFINED) return 0;
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check(code, "MPI_Testsome");
  for (int i = 0; i < count; ++i) {
    const Mpi::Pending& message = mpi.pending[mpi.done[i]];
    const MPI_Status& status = mpi.statuses[i];
    if (message.is_abandoned) {
      --*message.counter;
      continue;
    }
    if (message.from >= 0) {
      int bytes = -1;
      bool truncated = code == MPI_ERR_IN_STATUS && status.MPI_ERROR == MPI_ERR_TRUNCATE;
      if (!truncated) MPI_Get_count(&status, MPI_BYTE, &bytes);
      if (truncated || static_cast<std::size_t>(bytes) != message.bytes)
        throw CommunicationError(cat(message.label->text(), ": rank ", message.from, " sent ",
                                     truncated ? std::string("more than") : cat(bytes, " bytes instead of"), " the ",
                                     message.bytes, " bytes expected: the ranks perform different operations"));
      last_messages_[message.from] = {now_seconds(), *message.label};
    }
    if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS) check(status.MPI_ERROR, "MPI_Testsome");
    --*message.counter;
  }
  std::sort(mpi.done.begin(), mpi.done.begin() + count, std::greater<>());
  for (int i = 0; i < count; ++i) mpi.remove(mpi.done[i]);
  return count;
}

void MpiWire::abandon_messages(int kept) {
  for (std::size_t i = 0; i < mpi_->requests.size(); ++i) {
    Mpi::Pending& message = mpi_->pending[i];
    if (message.group == kept || message.is_abandoned) continue;
    message.is_abandoned = true;
    if (message.from >= 0 && mpi_->requests[i] != MPI_REQUEST_NULL) MPI_Cancel(&mpi_->requests[i]);
  }
}

void MpiWire::post(int to, std::string text) {
  if (text.size() > kMaxControlBytes) text.resize(kMaxControlBytes);
  // A control message must stay in memory until MPI has sent it. Do not wait for that: a stopped rank may never receive
  // it. Drop the messages that have been sent.
  std::erase_if(mpi_->posted, [](Mpi::Posted& old) {
    int is_sent = 0;
    check(MPI_Test(&old.request, &is_sent, MPI_STATUS_IGNORE), "MPI_Test");
    return is_sent != 0;
  });
  mpi_->posted.push_back({std::move(text), MPI_REQUEST_NULL});
  Mpi::Posted& posted = mpi_->posted.back();
  check(MPI_Isend(posted.text.data(), static_cast<int>(posted.text.size()), MPI_CHAR, to, 0, mpi_->control,
                  &posted.request),
        "MPI_Isend");
}

std::optional<ControlMessage> MpiWire::next_control_message() {
  int arrived = 0, length = 0;
  MPI_Status status;
  check(MPI_Test(&mpi_->next, &arrived, &status), "MPI_Test");
  if (!arrived) return {};
  MPI_Get_count(&status, MPI_CHAR, &length);
  ControlMessage message{status.MPI_SOURCE, std::string(mpi_->incoming.data(), length)};
  mpi_->await_control_message();
  return message;
}

void MpiWire::finalize() {
  MPI_Cancel(&mpi_->next);
  MPI_Wait(&mpi_->next, MPI_STATUS_IGNORE);  // does not wait for other ranks: the receive was cancelled
  for (Mpi::Group& group : mpi_->groups) MPI_Comm_free(&group.comm);
  mpi_->groups.clear();
  MPI_Comm_free(&mpi_->control);
  MPI_Finalize();
}

void MpiWire::abort(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace mtl
