// Streams, events and graphs through the CUDA runtime.
#include <cuda_runtime.h>

#include "device/check_cuda.h"
#include "device/cuda_stream.h"

namespace mtl::cuda {

void use_device(int ordinal) { check(cudaSetDevice(ordinal), "choosing a GPU"); }
int used_device() {
  int out = 0;
  check(cudaGetDevice(&out), "querying the chosen GPU");
  return out;
}

StreamHandle open_stream() {
  StreamHandle out = nullptr;
  check(cudaStreamCreate(&out), "opening a stream");
  return out;
}
void close_stream(StreamHandle stream) noexcept {
  static_cast<void>(cudaStreamSynchronize(stream));
  static_cast<void>(cudaStreamDestroy(stream));
}
void synchronize(StreamHandle stream) { check(cudaStreamSynchronize(stream), "waiting for a stream"); }

void copy_from_host(StreamHandle stream, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "a copy to the GPU");
}
void copy_to_host(StreamHandle stream, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "a copy from the GPU");
}
void copy_within(StreamHandle stream, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "a copy on the GPU");
}

EventHandle make_event(bool timed) {
  EventHandle out = nullptr;
  check(cudaEventCreateWithFlags(&out, timed ? cudaEventDefault : cudaEventDisableTiming), "making an event");
  return out;
}
void free_event(EventHandle event) noexcept { static_cast<void>(cudaEventDestroy(event)); }
void record(EventHandle event, StreamHandle stream) { check(cudaEventRecord(event, stream), "recording an event"); }
void order(EventHandle event, StreamHandle stream) {
  check(cudaStreamWaitEvent(stream, event, cudaEventWaitDefault), "ordering a stream after an event");
}
void synchronize(EventHandle event) { check(cudaEventSynchronize(event), "waiting for an event"); }
bool is_done(EventHandle event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // clear the status, so that it is not reported again
    return false;
  }
  check(status, "querying an event");
  return true;
}
float milliseconds_between(EventHandle begin, EventHandle end) {
  float out = 0;
  check(cudaEventElapsedTime(&out, begin, end), "the time between two events");
  return out;
}

// ThreadLocal: reject calls that could break a capture only on this thread.
void begin_capture(StreamHandle stream) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning to capture a graph");
}
GraphHandle end_capture(StreamHandle stream) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "capturing a graph");
  GraphHandle out = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&out, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  check(status, "building a graph");
  return out;
}
bool is_captured(StreamHandle stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "querying a capture");
  return status != cudaStreamCaptureStatusNone;
}
void drop_capture(StreamHandle stream) noexcept {
  cudaGraph_t graph = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream, &graph));
  if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  static_cast<void>(cudaGetLastError());
}
void launch(GraphHandle graph, StreamHandle stream) { check(cudaGraphLaunch(graph, stream), "a graph's launch"); }
void free_graph(GraphHandle graph) noexcept { static_cast<void>(cudaGraphExecDestroy(graph)); }

}  // namespace mtl::cuda
