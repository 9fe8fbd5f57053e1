#pragma once
#include <functional>
#include <string>
#include <vector>

#include "job/job_config.h"

namespace coeus::job {

struct RuleFault {
  std::string key, message;
};

// What is legal and surely not meant, a line each.
// world_size 0: not known yet.
std::vector<std::string> rule_warnings(const JobConfig& config, std::int64_t world_size);

// Faults between keys. A rule is left out when `skip` says that one of the keys it reads is faulty
// already.
std::vector<RuleFault> check_rules(const JobConfig& config,
                                   const std::function<bool(const std::string& key)>& skip);

// Keys whose feature does not exist yet and that are set to something else than their default or
// off.
std::vector<RuleFault> check_not_built(const JobConfig& config);
// The values such a key may have, as text; empty for a key without that limit.
std::string accepted_so_far(const std::string& key);

}  // namespace coeus::job
