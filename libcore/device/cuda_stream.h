// Streams, events and captured graphs on the cuda device. stream_cuda.cpp calls the CUDA runtime, no_cuda.cpp
// rejects all calls, and tests/mirror/queue.cpp emulates the runtime. Other code must use device/stream.h, event.h and
// graph.h instead of this header.
#pragma once

#include <cstddef>

struct CUstream_st;  // cudaStream_t, cudaEvent_t and cudaGraphExec_t point to these
struct CUevent_st;
struct CUgraphExec_st;

namespace mtl::cuda {

using StreamHandle = CUstream_st*;
using EventHandle = CUevent_st*;
using GraphHandle = CUgraphExec_st*;

/// Makes the calling thread use this GPU instead of the first one. One thread per process allocates memory, opens
/// streams and launches kernels, and must call this first unless it uses the first GPU. Other threads must also call it
/// before they query events or abort communication: otherwise their calls make a context on the first GPU, which takes
/// hundreds of MiB there.
void use_device(int ordinal);
/// Returns the GPU that the calling thread uses.
int used_device();

/// A stream runs its commands in order, asynchronously to the calls that enqueue them. The copies in cuda_memory.h do
/// not take a stream and wait for all streams.
StreamHandle open_stream();
void close_stream(StreamHandle stream) noexcept;
/// Blocks the host until all commands on the stream are complete.
void synchronize(StreamHandle stream);

/// If host memory is not pinned, the host waits for the copy.
void copy_from_host(StreamHandle stream, void* to, const void* from, std::size_t bytes);
void copy_to_host(StreamHandle stream, void* to, const void* from, std::size_t bytes);
void copy_within(StreamHandle stream, void* to, const void* from, std::size_t bytes);

EventHandle make_event(bool timed);
void free_event(EventHandle event) noexcept;
void record(EventHandle event, StreamHandle stream);
/// Makes later commands on the stream wait until the event's latest record() is reached.
void order(EventHandle event, StreamHandle stream);
void synchronize(EventHandle event);
bool is_done(EventHandle event);
/// Returns the time between two events, which must be timed and complete.
float milliseconds_between(EventHandle begin, EventHandle end);

/// Until end_capture(), records commands instead of executing them. Affects this stream and streams that wait for its
/// events. In the meantime, the host must not wait for these commands, allocate or free device memory, or use copies
/// that do not take a stream.
void begin_capture(StreamHandle stream);
GraphHandle end_capture(StreamHandle stream);
/// Returns true between begin_capture() and end_capture(), for the captured stream and for streams that joined the
/// capture.
bool is_captured(StreamHandle stream);
/// Discards a capture that failed.
void drop_capture(StreamHandle stream) noexcept;
void launch(GraphHandle graph, StreamHandle stream);
void free_graph(GraphHandle graph) noexcept;

}  // namespace mtl::cuda
