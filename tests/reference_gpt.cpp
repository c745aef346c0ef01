#include "tests/reference_gpt.h"

#include <algorithm>
#include <cmath>

#include "nn/rotary.h"
#include "tests/kernels/activation_reference.h"

namespace mtl::test {
namespace {

using Index = std::int64_t;

/// A matrix by rows; m(i, j) is element j of row i.
struct Matrix {
  explicit Matrix(Index r = 0, Index w = 0) : rows(r), width(w), data(r * w) {}
  double& operator()(Index i, Index j) { return data[i * width + j]; }
  double operator()(Index i, Index j) const { return data[i * width + j]; }
  Index rows, width;
  Array data;
};

Matrix operator+(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] += b.data[i];
  return a;
}

/// e^z / sum of e^z
Array softmax(Array z) {
  const double largest = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (double& each : z) sum += each = std::exp(each - largest);
  for (double& each : z) each /= sum;
  return z;
}

class Model {
 public:
  Model(const GptConfig& config, const Tensors& weights, const ReferenceBatch& batch)
      : c_(config), weights_(weights), batch_(batch), rows_(batch.sequences * batch.length) {
    for (const auto& [name, values] : weights) step_.grads[name].resize(values.size());
  }

  ReferenceStep run() {
    std::vector<Block> blocks(c_.num_layers);
    Matrix x(rows_, c_.hidden_size);
    for_each_embedding([&](Index n, Index i, const char* table, Index element) { x(n, i) += weight(table)[element]; });
    for (Index layer = 0; layer < c_.num_layers; ++layer) x = forward(blocks[layer], x, layer);
    const Normed last = norm(x, "final_norm", c_.norm);
    const std::string table = c_.tied_embeddings ? "embedding.tokens" : "output";
    Matrix dx = norm_backward(linear_backward(classify(linear(last.y, table)), last.y, table), last, "final_norm");
    for (Index layer = c_.num_layers; layer-- > 0;) dx = backward(blocks[layer], dx, layer);
    for_each_embedding([&](Index n, Index i, const char* table, Index element) { grad(table)[element] += dx(n, i); });
    return std::move(step_);
  }

 private:
  struct Normed {
    Norm kind;
    Matrix y, scaled;  // scaled = (x - mean) rstd; RMSNorm has no mean
    Array rstd;
  };
  /// The values in a transformer block that backward reads.
  struct Block {
    Normed norm1, norm2, q_norm, k_norm;
    Matrix q, k, v;   // (N, H D), (N, G D), (N, G D), as attention reads them
    Matrix attended;  // (N, H D)
    Matrix pre, act;  // in the MLP
  };

  bool has(const std::string& name) const { return weights_.contains(name); }
  const Array& weight(const std::string& name) const { return weights_.at(name); }
  Array& grad(const std::string& name) { return step_.grads.at(name); }

  /// y = x W^T + b, W (out, in).
  Matrix linear(const Matrix& x, const std::string& name) const {
    const Array& w = weight(name + ".weight");
    Matrix y(x.rows, std::ssize(w) / x.width);
    for (Index n = 0; n < y.rows; ++n)
      for (Index o = 0; o < y.width; ++o) {
        y(n, o) = has(name + ".bias") ? weight(name + ".bias")[o] : 0;
        for (Index i = 0; i < x.width; ++i) y(n, o) += x(n, i) * w[o * x.width + i];
      }
    return y;
  }
  /// dx = dy W, dW += dy^T x, db += dy summed over rows.
  Matrix linear_backward(const Matrix& dy, const Matrix& x, const std::string& name) {
    const Array& w = weight(name + ".weight");
    Array& dw = grad(name + ".weight");
    Matrix dx(x.rows, x.width);
    for (Index n = 0; n < dy.rows; ++n)
      for (Index o = 0; o < dy.width; ++o) {
        if (has(name + ".bias")) grad(name + ".bias")[o] += dy(n, o);
        for (Index i = 0; i < x.width; ++i) {
          dx(n, i) += dy(n, o) * w[o * x.width + i];
          dw[o * x.width + i] += dy(n, o) * x(n, i);
        }
      }
    return dx;
  }

  /// y = gamma (x - mean) rstd + beta over each row; RMSNorm has mean = 0 and no beta.
  Normed norm(const Matrix& x, const std::string& name, Norm kind) const {
    Normed out{kind, x, x, Array(x.rows)};
    for (Index n = 0; n < x.rows; ++n) {
      double mean = 0, square = 0;
      for (Index i = 0; kind == Norm::layernorm && i < x.width; ++i) mean += x(n, i) / double(x.width);
      for (Index i = 0; i < x.width; ++i) square += (x(n, i) - mean) * (x(n, i) - mean) / double(x.width);
      out.rstd[n] = 1 / std::sqrt(square + c_.norm_eps);
      for (Index i = 0; i < x.width; ++i) {
        out.scaled(n, i) = (x(n, i) - mean) * out.rstd[n];
        out.y(n, i) =
            weight(name + ".weight")[i] * out.scaled(n, i) + (has(name + ".bias") ? weight(name + ".bias")[i] : 0);
      }
    }
    return out;
  }
  /// With g = dy gamma: dx = rstd (g - mean(g) - scaled mean(g scaled)). For RMSNorm, the term mean(g) is missing.
  Matrix norm_backward(const Matrix& dy, const Normed& cache, const std::string& name) {
    const Array& gamma = weight(name + ".weight");
    Matrix dx(dy.rows, dy.width);
    for (Index n = 0; n < dy.rows; ++n) {
      double mean = 0, along = 0;
      for (Index i = 0; i < dy.width; ++i) {
        if (cache.kind == Norm::layernorm) mean += dy(n, i) * gamma[i] / double(dy.width);
        along += dy(n, i) * gamma[i] * cache.scaled(n, i) / double(dy.width);
        grad(name + ".weight")[i] += dy(n, i) * cache.scaled(n, i);
        if (has(name + ".bias")) grad(name + ".bias")[i] += dy(n, i);
      }
      for (Index i = 0; i < dy.width; ++i)
        dx(n, i) = cache.rstd[n] * (dy(n, i) * gamma[i] - mean - cache.scaled(n, i) * along);
    }
    return dx;
  }

  /// Calls body(n, i, table, element) for each term of x = token embedding, plus position embedding if there is one.
  template <class Body>
  void for_each_embedding(const Body& body) const {
    for (Index n = 0; n < rows_; ++n)
      for (Index i = 0; i < c_.hidden_size; ++i) {
        body(n, i, "embedding.tokens.weight", batch_.tokens[n] * c_.hidden_size + i);
        if (c_.position_embedding == PositionEmbedding::learned)
          body(n, i, "embedding.positions.weight", batch_.positions[n] * c_.hidden_size + i);
      }
  }

  /// Stores the logits z and each row's loss, and returns dz:
  /// p = softmax(z), loss = -log p[label], dz = weight (p - onehot(label))
  Matrix classify(Matrix z) {
    step_.logits = z.data;
    for (Index n = 0; n < z.rows; ++n) {
      Array p = softmax(Array(&z(n, 0), &z(n, 0) + z.width));
      step_.losses.push_back(-std::log(p[batch_.labels[n]]));
      p[batch_.labels[n]] -= 1;
      for (Index v = 0; v < z.width; ++v) z(n, v) = batch_.loss_weights[n] * p[v];
    }
    return z;
  }

  /// Moves packed rows to q, k and v (`unpack`), or back. For each group, a packed row holds R = H / G queries, the key
  /// and the value, of D elements each.
  void move_heads(Matrix& packed, Matrix& q, Matrix& k, Matrix& v, bool unpack) const {
    const Index r = c_.num_heads / c_.num_query_groups, d = c_.head_dim;
    for (Index n = 0; n < rows_; ++n)
      for (Index i = 0; i < packed.width; ++i) {
        const Index group = i / ((r + 2) * d), slot = i / d % (r + 2), e = i % d;
        double& element = slot < r ? q(n, (group * r + slot) * d + e) : (slot == r ? k : v)(n, group * d + e);
        (unpack ? element : packed(n, i)) = unpack ? packed(n, i) : element;
      }
  }

  /// Rotates each pair (a, b) in a head by its angle: (a c - b s, b c + a s). Backward rotates by -angle.
  void rotate(Matrix& heads, double direction) const {
    if (c_.position_embedding != PositionEmbedding::rotary) return;
    const RotaryFrequencies frequencies = rotary_frequencies(c_, batch_.length);
    const Index step = frequencies.interleaved ? 2 : 1, distance = frequencies.interleaved ? 1 : frequencies.pairs;
    for (Index n = 0; n < rows_; ++n)
      for (Index head = 0; head < heads.width; head += c_.head_dim)
        for (Index i = 0; i < frequencies.pairs; ++i) {
          const double angle = direction * double(batch_.positions[n]) * frequencies.values[i],
                       c = frequencies.scale * cos(angle), s = frequencies.scale * sin(angle);
          double &a = heads(n, head + i * step), &b = heads(n, head + i * step + distance);
          std::tie(a, b) = std::pair(a * c - b * s, b * c + a * s);
        }
  }
  Matrix by_head(Matrix m) const { return m.width = c_.head_dim, m.rows = std::ssize(m.data) / m.width, m; }

  /// Calls body(n, head, kv, P, first) for every row n and head. The row attends to rows s = first .. n in its sequence
  /// with probabilities P[s - first] = softmax(q . k[s] / sqrt(D)). In each row, the query starts at column `head`, and
  /// the key and value start at column `kv`.
  template <class Body>
  void for_each_query(const Block& b, Index layer, const Body& body) const {
    const Index window = layer < c_.first_window_layer ? 0 : c_.sliding_window, d = c_.head_dim;
    for (Index n = 0; n < rows_; ++n)
      for (Index head = 0; head < b.q.width; head += d) {
        Index first = n / batch_.length * batch_.length + batch_.document_start[n];
        if (window > 0) first = std::max(first, n - window + 1);
        const Index kv = head / d / (c_.num_heads / c_.num_query_groups) * d;
        Array p(n - first + 1);
        for (Index s = first; s <= n; ++s)
          for (Index e = 0; e < d; ++e) p[s - first] += b.q(n, head + e) * b.k(s, kv + e) / std::sqrt(double(d));
        body(n, head, kv, softmax(p), first);
      }
  }

  /// o = sum_s P[s] v[s]
  Matrix attention(Block& b, const Matrix& x, const std::string& name, Index layer) const {
    const Index d = c_.head_dim, kv_width = c_.num_query_groups * d;
    Matrix packed = linear(x, name + ".qkv");
    b.q = b.attended = Matrix(rows_, c_.num_heads * d);
    b.k = b.v = Matrix(rows_, kv_width);
    move_heads(packed, b.q, b.k, b.v, true);
    if (c_.qk_norm) {
      b.q.data = (b.q_norm = norm(by_head(b.q), name + ".q_norm", Norm::rmsnorm)).y.data;
      b.k.data = (b.k_norm = norm(by_head(b.k), name + ".k_norm", Norm::rmsnorm)).y.data;
    }
    for (Matrix* heads : {&b.q, &b.k}) rotate(*heads, 1);
    for_each_query(b, layer, [&](Index n, Index head, Index kv, const Array& p, Index first) {
      for (Index s = first; s <= n; ++s)
        for (Index e = 0; e < d; ++e) b.attended(n, head + e) += p[s - first] * b.v(s, kv + e);
    });
    return linear(b.attended, name + ".out");
  }
  /// dP = do . v,  dS = P (dP - do . o),  dq += dS k / sqrt(D),  dk += dS q / sqrt(D),  dv += P do
  Matrix attention_backward(const Block& b, const Matrix& dy, const std::string& name, Index layer) {
    const Matrix dout = linear_backward(dy, b.attended, name + ".out");
    Matrix dq(rows_, b.q.width), dk(rows_, b.k.width), dv(rows_, b.v.width), packed(rows_, b.q.width + 2 * b.k.width);
    for_each_query(b, layer, [&](Index n, Index head, Index kv, const Array& p, Index first) {
      const Index d = c_.head_dim;
      double delta = 0;
      for (Index e = 0; e < d; ++e) delta += dout(n, head + e) * b.attended(n, head + e);
      for (Index s = first; s <= n; ++s) {
        double dp = 0;
        for (Index e = 0; e < d; ++e) dp += dout(n, head + e) * b.v(s, kv + e);
        const double ds = p[s - first] * (dp - delta) / std::sqrt(double(d));
        for (Index e = 0; e < d; ++e) {
          dq(n, head + e) += ds * b.k(s, kv + e);
          dk(s, kv + e) += ds * b.q(n, head + e);
          dv(s, kv + e) += p[s - first] * dout(n, head + e);
        }
      }
    });
    for (Matrix* heads : {&dq, &dk}) rotate(*heads, -1);
    if (c_.qk_norm) {
      dq.data = norm_backward(by_head(dq), b.q_norm, name + ".q_norm").data;
      dk.data = norm_backward(by_head(dk), b.k_norm, name + ".k_norm").data;
    }
    move_heads(packed, dq, dk, dv, false);
    return linear_backward(packed, b.norm1.y, name + ".qkv");
  }

  /// act = f(pre); gated: act = f(pre[0 .. F)) pre[F .. 2 F)
  Matrix mlp(Block& b, const Matrix& x, const std::string& name) const {
    b.pre = linear(x, name + ".up");
    b.act = Matrix(rows_, c_.ffn_hidden_size);
    for (Index n = 0; n < rows_; ++n)
      for (Index i = 0; i < b.act.width; ++i)
        b.act(n, i) = reference_activation(c_.activation, b.pre(n, i)) * (c_.gated_mlp ? b.pre(n, b.act.width + i) : 1);
    return linear(b.act, name + ".down");
  }
  Matrix mlp_backward(const Block& b, const Matrix& dy, const std::string& name) {
    const Matrix dact = linear_backward(dy, b.act, name + ".down");
    Matrix dpre(rows_, b.pre.width);
    for (Index n = 0; n < rows_; ++n)
      for (Index i = 0; i < dact.width; ++i) {
        const double up = c_.gated_mlp ? b.pre(n, dact.width + i) : 1;
        dpre(n, i) = dact(n, i) * up * reference_activation_derivative(c_.activation, b.pre(n, i));
        if (c_.gated_mlp) dpre(n, dact.width + i) = dact(n, i) * reference_activation(c_.activation, b.pre(n, i));
      }
    return linear_backward(dpre, b.norm2.y, name + ".up");
  }

  /// m = x + attention(norm1(x)),  y = m + mlp(norm2(m));  parallel residual: y = m + mlp(norm2(x))
  Matrix forward(Block& b, const Matrix& x, Index layer) const {
    const std::string name = "layers." + std::to_string(layer);
    b.norm1 = norm(x, name + ".norm1", c_.norm);
    const Matrix middle = x + attention(b, b.norm1.y, name + ".attention", layer);
    b.norm2 = norm(c_.parallel_residual ? x : middle, name + ".norm2", c_.norm);
    return middle + mlp(b, b.norm2.y, name + ".mlp");
  }
  Matrix backward(const Block& b, const Matrix& dy, Index layer) {
    const std::string name = "layers." + std::to_string(layer);
    const Matrix dmiddle = dy + norm_backward(mlp_backward(b, dy, name + ".mlp"), b.norm2, name + ".norm2");
    const Matrix dout = attention_backward(b, c_.parallel_residual ? dy : dmiddle, name + ".attention", layer);
    return dmiddle + norm_backward(dout, b.norm1, name + ".norm1");
  }

  const GptConfig& c_;
  const Tensors& weights_;
  const ReferenceBatch& batch_;
  Index rows_;
  ReferenceStep step_;
};

}  // namespace

ReferenceStep reference_step(const GptConfig& config, const Tensors& weights, const ReferenceBatch& batch) {
  return Model(config, weights, batch).run();
}

}  // namespace mtl::test
