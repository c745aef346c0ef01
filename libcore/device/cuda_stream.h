// Streams, events and captured graphs of the device cuda: stream_cuda.cpp calls the CUDA runtime, no_cuda_stream.cpp
// refuses, tests/mirror/queue.cpp emulates them. Callers use device/stream.h, event.h, graph.h.
#pragma once

#include <cstddef>

struct CUstream_st;  // cudaStream_t, cudaEvent_t and cudaGraphExec_t point to these
struct CUevent_st;
struct CUgraphExec_st;

namespace mtl::cuda {

using StreamHandle = CUstream_st*;
using EventHandle = CUevent_st*;
using GraphHandle = CUgraphExec_st*;

/// A stream runs its commands in order, asynchronously to the calls that enqueue them. The copies of cuda_memory.h,
/// which take no stream, wait for all streams.
StreamHandle open_stream();
void close_stream(StreamHandle stream) noexcept;
/// Blocks the host until every command of the stream is done.
void synchronize(StreamHandle stream);

/// Host memory must be pinned, or the host waits for the copy.
void copy_from_host(StreamHandle stream, void* to, const void* from, std::size_t bytes);
void copy_to_host(StreamHandle stream, void* to, const void* from, std::size_t bytes);
void copy_within(StreamHandle stream, void* to, const void* from, std::size_t bytes);

EventHandle make_event(bool timed);
void free_event(EventHandle event) noexcept;
void record(EventHandle event, StreamHandle stream);
/// Makes later commands of the stream run after the event's last record.
void order(EventHandle event, StreamHandle stream);
void synchronize(EventHandle event);
bool is_done(EventHandle event);
/// Returns the time between two timed events that are done.
float milliseconds_between(EventHandle begin, EventHandle end);

/// Until end_capture(), commands of the stream, and of streams that wait for its events, are recorded instead of run.
/// The host must not wait for them, allocate or free device memory, or use copies without a stream meanwhile.
void begin_capture(StreamHandle stream);
GraphHandle end_capture(StreamHandle stream);
/// True between begin_capture() and its end, also for streams that joined the capture.
bool is_captured(StreamHandle stream);
/// Discards a failed capture.
void drop_capture(StreamHandle stream) noexcept;
void launch(GraphHandle graph, StreamHandle stream);
void free_graph(GraphHandle graph) noexcept;

}  // namespace mtl::cuda
