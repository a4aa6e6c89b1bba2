#include "experiments/train/python_hooks.h"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "experiments/train/python_process.h"

namespace longhaul {
namespace {

class ClassInPython : public OuterHooks {
 public:
  static absl::StatusOr<std::unique_ptr<OuterHooks>> Create(const PythonClass& named,
                                                            int64_t threads, const OuterSpec& spec,
                                                            const OuterHooksPlace& place,
                                                            const at::Tensor& parameters) {
    ASSIGN_OR_RETURN(auto process, PythonProcess::OfThisProcess(threads));
    std::unique_ptr<ClassInPython> made(new ClassInPython(std::move(process)));
    made->of_ = absl::StrCat("group ", place.group, ", stage ", place.stage);
    const int64_t n = parameters.numel();
    for (at::Tensor* buffer :
         {&made->buffers_.parameters, &made->buffers_.start, &made->buffers_.crossing}) {
      RETURN_IF_ERROR(made->Take(n, buffer));
    }
    made->buffers_.parameters.copy_(parameters);
    made->buffers_.start.copy_(parameters);
    ASSIGN_OR_RETURN(const nlohmann::json loaded,
                     made->Ask({{"do", "load"}, {"file", named.file}, {"class", named.name}}));
    nlohmann::json state = nlohmann::json::object();
    for (const auto& name : loaded.at("state")) {
      at::Tensor tensor;
      RETURN_IF_ERROR(made->Take(n, &tensor));
      state[name] = made->places_.back().at;
      made->state_.emplace_back(name.get<std::string>(), std::move(tensor));
    }
    const absl::Status constructed = made->Ask({{"do", "new"},
                                                {"file", named.file},
                                                {"class", named.name},
                                                {"elements", n},
                                                {"parameters", made->places_[0].at},
                                                {"start", made->places_[1].at},
                                                {"crossing", made->places_[2].at},
                                                {"state", state},
                                                {"rank",
                                                 {{"group", place.group},
                                                  {"groups", place.groups},
                                                  {"stage", place.stage},
                                                  {"stages", place.stages},
                                                  {"inner_steps", spec.inner_steps},
                                                  {"steps", place.steps},
                                                  {"lr", spec.lr},
                                                  {"momentum", spec.momentum},
                                                  {"seed", place.seed}}}})
                                         .status();
    RETURN_IF_ERROR(constructed);
    return made;
  }
  ~ClassInPython() override {
    (void)process_->Ask({{"do", "drop"}, {"id", id_}});  // a process that has ended has dropped it
    process_->Forget(places_);
  }

  const Buffers& buffers() const override { return buffers_; }
  const std::vector<std::pair<std::string, at::Tensor>>& state() const override { return state_; }
  absl::Status Send(int64_t step) override {
    return Ask({{"do", "send"}, {"step", step}}).status();
  }
  absl::Status Apply(int64_t step, double lr) override {
    return Ask({{"do", "apply"}, {"step", step}, {"lr", lr}}).status();
  }

 private:
  explicit ClassInPython(std::shared_ptr<PythonProcess> process) : process_(std::move(process)) {
    static std::atomic<int64_t> last = 0;
    id_ = ++last;
  }
  absl::Status Take(int64_t elements, at::Tensor* tensor) {
    ASSIGN_OR_RETURN(const PythonProcess::Place place, process_->NewTensor(elements));
    places_.push_back(place);
    ASSIGN_OR_RETURN(*tensor, process_->ViewOf(place));
    return absl::OkStatus();
  }
  absl::StatusOr<nlohmann::json> Ask(nlohmann::json request) {
    request["id"] = id_;
    absl::StatusOr<nlohmann::json> answer = process_->Ask(request);
    if (answer.ok()) return answer;
    return absl::Status(
        answer.status().code(),
        absl::StrCat("outer.algorithm, ", of_, ": ", std::string(answer.status().message())));
  }

  std::shared_ptr<PythonProcess> process_;
  int64_t id_;
  std::string of_;
  Buffers buffers_;
  std::vector<std::pair<std::string, at::Tensor>> state_;
  std::vector<PythonProcess::Place> places_;
};

}  // namespace

NewOuterHooks PythonOuterHooks(const PythonClass& named, int64_t threads) {
  return [named, threads](const OuterSpec& spec, const OuterHooksPlace& place,
                          const at::Tensor& parameters) {
    return ClassInPython::Create(named, threads, spec, place, parameters);
  };
}

}  // namespace longhaul
