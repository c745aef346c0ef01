#include "nn/context.h"

#include "kernels/gemm.h"

namespace mtl {

void WeightGradQueue::flush(Stream& stream, Arena& scratch) {
  for (const Item& item : items_) {
    Grad dw = item.weight.take_grad();
    Epilogue epilogue;
    if (item.bias.exists()) {
      epilogue.dbias = item.bias.take_grad();
      epilogue.dbias.tensor = epilogue.dbias.tensor.view({epilogue.dbias.tensor.numel()});
    }
    std::int64_t in = item.x.size(-1), out = item.dy.size(-1);
    gemm(stream, scratch, dw.tensor.view({out, in}), transposed(item.dy), {item.x}, dw.mode, epilogue);
  }
  items_.clear();
}

}  // namespace mtl
