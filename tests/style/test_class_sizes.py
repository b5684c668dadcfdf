"""tests/style/class_sizes.py: counts of members and functions, and limits."""

import pathlib

import class_sizes
import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]


def test_no_class_is_above_a_limit():
    assert class_sizes.find_faults(REPO) == []


@pytest.fixture
def measured(tmp_path):
    def measure(text):
        (tmp_path / "models").mkdir(exist_ok=True)
        (tmp_path / "models" / "a.h").write_text(text)
        return {size.name: (size.members, size.functions) for size in class_sizes.class_sizes(tmp_path)}

    return measure


def test_members_are_declarations_that_are_no_functions_types_or_constants(measured):
    assert measured("""class A : public B<int, C> {
 public:
  enum class Kind { kOne, kTwo };
  static constexpr int kLimit = 3;
  using Hook = std::function<void(int)>;
 private:
  struct State;
  struct Mark { int begin; int end; };
  friend class D;
  int count_ = 0;  // not a comment's; declaration
  std::function<void(const Action&, int)> hook_;
  std::array<std::unique_ptr<E>, 2> pair_{};
  std::map<std::string, int> names_{{"a", 1}, {"b", 2}};
};
""") == {"A": (4, 0)}


def test_public_functions_count_without_constructors_assignments_and_deleted_ones(measured):
    assert measured("""class A {
 public:
  explicit A(int x) : x_{x}, y_(f({1, 2})) { run(); }
  ~A();
  A(const A&) = delete;
  A& operator=(const A&) = delete;
  [[nodiscard]] bool is_on() const { return x_ > 0; }
  virtual void run(std::function<bool(int)> stop = {}) = 0;
  template <typename T> T get() const;
  static A make();
  const B& b() const;
 private:
  void hidden();
  int x_;
  int y_;
};
""") == {"A": (2, 5)}


def test_structs_forward_declarations_and_template_parameters_are_not_classes(measured):
    assert measured("class A;\nenum class B { kC };\nstruct D { int x; };\n"
                    "template <class T, class U> struct E { T t; };\nvoid f(class G* g) {}\n") == {}


def test_a_class_above_a_limit_is_named(measured, tmp_path):
    large = "class A {\n" + "".join(f"  int x{i}_;\n" for i in range(16)) + "};\n"
    assert measured(large) == {"A": (16, 0)}
    assert class_sizes.find_faults(tmp_path) == ["models/a.h A 16 0: more than 15 members or 20 public functions"]
    assert measured(large.replace("  int x0_;\n", "")) == {"A": (15, 0)}
    assert class_sizes.find_faults(tmp_path) == []
