// The extension module of the Python package `longhaul`: the adapter for one minor version of
// torch.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "plugin/backend/process_group.h"
#include "plugin/core/tensor_kind.h"
#include "python/module/codecs.h"

namespace py = pybind11;

namespace longhaul {
namespace {

py::dict AsDict(const CrossingCounters& c) {
  py::dict d;
  d["peer"] = c.peer;
  d["sent"] = c.sent;
  d["codec"] = c.codec;
  d["kind"] = c.kind ? std::string(ToString(*c.kind)) : std::string();
  d["tensors"] = c.tensors;
  d["elements"] = c.elements;
  d["payload_bytes"] = c.payload_bytes;
  d["message_bytes"] = c.message_bytes;
  d["device_tensors"] = c.device_tensors;
  d["encode_s"] = absl::ToDoubleSeconds(c.encode);
  d["decode_s"] = absl::ToDoubleSeconds(c.decode);
  d["nmse_samples"] = c.nmse_samples;
  d["nmse_sum"] = c.nmse_sum;
  d["nmse_max"] = c.nmse_max;
  d["payload_hash"] = c.payload_hash;
  d["collective_bytes"] = c.collective_bytes;
  return d;
}

py::list Crossings(ProcessGroupLonghaul& group) {
  std::vector<CrossingCounters> counters;
  {
    py::gil_scoped_release no_gil;
    counters = group.counters();
  }
  py::list list;
  for (const CrossingCounters& c : counters) {
    if (c.tensors > 0 || c.collective_messages > 0) list.append(AsDict(c));
  }
  return list;
}

py::dict Traffic(ProcessGroupLonghaul& group) {
  const NodeTraffic t = group.node().traffic();
  py::dict d;
  d["sent_bytes"] = t.sent_bytes;
  d["received_bytes"] = t.received_bytes;
  d["sent_messages"] = t.sent_messages;
  d["received_messages"] = t.received_messages;
  d["refused_messages"] = t.refused_messages;
  d["refused_strangers"] = t.refused_strangers;
  d["silent_connections"] = t.silent_connections;
  return d;
}

void BindOptions(py::module_& m) {
  using Options = ProcessGroupLonghaul::Options;
  py::class_<Options, c10d::Backend::Options, c10::intrusive_ptr<Options>>(m, "Options")
      .def(py::init([] { return c10::make_intrusive<Options>(); }))
      .def_readwrite("timeout", &Options::timeout)
      .def_readwrite("group_name", &Options::group_name)
      .def_readwrite("seed", &Options::seed)
      .def_readwrite("nmse_every", &Options::nmse_every)
      .def_readwrite("ef_slots", &Options::ef_slots)
      .def("set_codecs",
           [](Options& o, std::string forward, std::string backward,
              std::map<int, std::string> by_tag, int64_t min_elements, bool kinds_by_rank) {
             o.codecs = {.forward = std::move(forward),
                         .backward = std::move(backward),
                         .by_tag = std::move(by_tag),
                         .min_elements = min_elements,
                         .unnamed_kind = kinds_by_rank ? CodecPolicy::UnnamedKind::kByRank
                                                       : CodecPolicy::UnnamedKind::kRefused};
           })
      .def("set_collectives",
           [](Options& o, std::string all_reduce, std::string reduce_scatter,
              std::string all_gather, int way, int site_size) {
             o.codecs.collectives = {.all_reduce = std::move(all_reduce),
                                     .reduce_scatter = std::move(reduce_scatter),
                                     .all_gather = std::move(all_gather),
                                     .way = static_cast<CodecPolicy::Collectives::Way>(way),
                                     .site_size = site_size};
           })
      .def("set_node", [](Options& o, std::string interface,
                          std::optional<double> peer_deadline_s,  // inf: never
                          std::optional<int64_t> credit_bytes, std::optional<int> coder_threads,
                          bool shared_memory, bool ucx_environment) {
        o.node_wishes = {.interface = std::move(interface),
                         .credit_bytes = credit_bytes,
                         .coder_threads = coder_threads,
                         .shared_memory = shared_memory,
                         .ucx_environment = ucx_environment};
        if (peer_deadline_s) o.node_wishes.peer_deadline = absl::Seconds(*peer_deadline_s);
      });
}

void BindProcessGroup(py::module_& m) {
  py::class_<ProcessGroupLonghaul, c10d::Backend, c10::intrusive_ptr<ProcessGroupLonghaul>>(
      m, "ProcessGroupLonghaul")
      .def(py::init([](c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                       c10::intrusive_ptr<ProcessGroupLonghaul::Options> options) {
             return c10::make_intrusive<ProcessGroupLonghaul>(std::move(store), rank, size,
                                                              std::move(options));
           }),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("options", &ProcessGroupLonghaul::getBackendOptions)
      .def("crossings", &Crossings)
      .def("recent_operations",
           [](ProcessGroupLonghaul& g) { return g.group().RecentOperations(); })
      .def("lossless", &ProcessGroupLonghaul::lossless)
      .def("decode_next_send",
           [](ProcessGroupLonghaul& group, std::optional<at::Tensor> out) {
             group.decode_next_send(out ? *std::move(out) : at::Tensor());
           })
      .def("traffic", &Traffic)
      .def("description", [](ProcessGroupLonghaul& g) { return g.node().description(); });
}

}  // namespace
}  // namespace longhaul

PYBIND11_MODULE(LONGHAUL_MODULE_NAME, m) {
  py::module_::import("torch.distributed");            // the base classes are bound there
  m.attr("FIRST_KIND_TAG") = longhaul::kFirstKindTag;  // pipelining.py must name the same
  m.attr("GRADIENT_BIT") = longhaul::kGradientBit;
  m.attr("MAX_CODER_THREADS") = longhaul::kMaxCoderThreads;  // and options.py
  longhaul::BindOptions(m);
  longhaul::BindProcessGroup(m);
  longhaul::BindCodecs(m);
}
