#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "launch/environment.h"

namespace coeus::launch {

// What one source of rank identity says. `incomplete` names what is set and what is missing, where
// somebody evidently meant this source; it becomes an error when no other source is complete.
struct Finding {
  std::optional<World> world;
  std::string incomplete;
};

Finding find_torchrun(const Environment& environment);
Finding find_openmpi(const Environment& environment);
Finding find_srun(const Environment& environment);
Finding find_pmi(const Environment& environment);
Finding find_alone(const Environment& environment);

// --- for the sources -----------------------------------------------------------------------------
std::optional<int> read_integer(const Environment& environment, const std::string& name);
std::string show_variables(const Environment& environment,
                           std::initializer_list<const char*> names);

// Throws UsageError with both values unless 0 ≤ variable `index` < variable `size`.
void check_index(const Environment& environment, const char* index, const char* size);
// MASTER_ADDR and MASTER_PORT, where set, into the world.
void read_master(const Environment& environment, World& world);
// A port that every process of the same job and step derives alike, outside the ephemeral range.
int derive_port(unsigned long long job, unsigned long long step);

// "4,2,1(x2)" -> 4 2 1 1
std::vector<int> expand_tasks_per_node(const std::string& list);

}  // namespace coeus::launch
