/* Prints the layout of fikit_protocol.h as JSON: the fake daemon of the tests has no second copy of it. */
#include "fikit_protocol.h"

#include <stddef.h>
#include <stdio.h>

#define PLAN_FIELD(name) printf("\"plan.%s\": %zu, ", #name, sizeof(struct fikit_page) + offsetof(struct fikit_plan, name))
#define FIELD(name) printf("\"%s\": %zu, ", #name, offsetof(struct fikit_page, name))

int main(void) {
  printf("{");
  FIELD(magic);
  FIELD(version);
  FIELD(page_bytes);
  FIELD(measure);
  FIELD(lease_ns);
  FIELD(spin_ns);
  FIELD(gate);
  FIELD(wake);
  FIELD(grant_seq);
  FIELD(awake);
  FIELD(gate_until_ns);
  FIELD(ring_tail);
  FIELD(run_until);
  FIELD(copies_ask_from);
  FIELD(fills_ask);
  FIELD(collective_names);
  FIELD(ring_head);
  FIELD(launch_seq);
  FIELD(request_seq);
  FIELD(waiting);
  FIELD(request_slot);
  FIELD(request_copy);
  FIELD(request_bytes);
  FIELD(request_ns);
  FIELD(wait_count);
  FIELD(wait_total_ns);
  FIELD(expired_count);
  FIELD(marker_count);
  FIELD(wait_histogram);
  FIELD(first_launch_ns);
  FIELD(last_drained_ns);
  FIELD(slot_launches);
  FIELD(ring);
  FIELD(marker_interval);
  FIELD(known_slots);
  FIELD(gap_slots);
  FIELD(marks);
  FIELD(moves.goal_bytes);
  FIELD(moves.goal);
  FIELD(moves.movable_bytes);
  FIELD(moves.resident_bytes);
  FIELD(moves.in_bytes);
  FIELD(moves.out_bytes);
  FIELD(moves.missed_bytes);
  FIELD(moves.moving_ns);
  FIELD(moves.reached);
  FIELD(moves.turns);
  FIELD(moves.failures);
  FIELD(most_movable_bytes);
  FIELD(most_movable_ns);
  FIELD(moves_per_s);
  PLAN_FIELD(number);
  PLAN_FIELD(launches);
  PLAN_FIELD(first_launch);
  PLAN_FIELD(until_ns);
  PLAN_FIELD(count);
  PLAN_FIELD(first_uses);
  PLAN_FIELD(taken);
  PLAN_FIELD(refused);
  PLAN_FIELD(carried_out);
  PLAN_FIELD(skipped);
  PLAN_FIELD(bytes_per_s);
  PLAN_FIELD(moves);
  printf("\"with_plan_bytes\": %zu, ", sizeof(struct fikit_page) + sizeof(struct fikit_plan));
  printf("\"welcome_bytes\": %zu, \"memory_bytes\": %zu, \"memory_limit\": %zu, \"memory_shares\": %zu, \"memory_share\": %zu, ",
         sizeof(struct fikit_welcome), sizeof(struct fikit_memory), offsetof(struct fikit_memory, limit_bytes),
         offsetof(struct fikit_memory, shares), offsetof(struct fikit_memory, share));
  printf("\"bytes\": %zu, \"hello_bytes\": %zu, \"kernel_bytes\": %zu, \"kernel_name\": %zu}\n",
         sizeof(struct fikit_page), sizeof(struct fikit_hello), sizeof(struct fikit_kernel),
         offsetof(struct fikit_kernel, name));
  return 0;
}
