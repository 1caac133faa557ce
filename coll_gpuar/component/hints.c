/* Hints in a communicator's info. MPI wants of them that those which make no sense are ignored, and
 * that MPI_Comm_get_info() tells which are in use. */
#include <stdio.h>
#include <string.h>

#include "coll_gpuar/component/coll_gpuar.h"

static const char* const keys[GPUAR_HINTS] = {
    [GPUAR_HINT_ALGORITHM] = "gpuar_algorithm",
    [GPUAR_HINT_SEGMENT_SIZE] = "gpuar_segment_size",
    [GPUAR_HINT_PIPELINE_DEPTH] = "gpuar_pipeline_depth",
    [GPUAR_HINT_REPRODUCIBLE] = "gpuar_reproducible",
    [GPUAR_HINT_EXPECT] = "gpuar_expect",
};

void coll_gpuar_hints_read(const ompi_communicator_t* comm, coll_gpuar_hints* hints) {
  for (int i = 0; i < GPUAR_HINTS; ++i) {
    char* text = hints->texts[i];
    const bool given = coll_gpuar_hint(&comm->super, keys[i], text, sizeof hints->texts[i]);
    hints->given[i] = given ? text : NULL;
  }
}

/* What Open MPI asks once at the beginning, and when a program gives a hint again later: what
 * should the info say? It copies the answer; NULL takes the hint out of the info. What comes later
 * is not used, and Open MPI 4.1 could only show it in place of what is: so it shows nothing. */
static coll_gpuar_info_text* unless_other(opal_infosubscriber_t* object, GPUAR_INFO_CONST char* key,
                                          GPUAR_INFO_CONST char* value) {
  static _Thread_local char text[COLL_GPUAR_HINT_BYTES];
  const bool same = coll_gpuar_hint(object, key, text, sizeof text) && 0 == strcmp(text, value);
  return same ? text : NULL;
}

static coll_gpuar_info_text* not_in_use(opal_infosubscriber_t* object, GPUAR_INFO_CONST char* key,
                                        GPUAR_INFO_CONST char* value) {
  (void)object;
  (void)key;
  (void)value;
  return NULL;
}

void coll_gpuar_hints_settle(ompi_communicator_t* comm, const coll_gpuar_hints* hints,
                             const gpuar_comm* served) {
  for (int i = 0; i < GPUAR_HINTS; ++i) {
    if (NULL == hints->given[i]) continue;
    const bool used = NULL != served && gpuar_comm_uses_hint(served, (gpuar_hint)i);
    char key[COLL_GPUAR_HINT_BYTES], none[] = "";
    snprintf(key, sizeof key, "%s", keys[i]);
    (void)opal_infosubscribe_subscribe(&comm->super, key, none, used ? unless_other : not_in_use);
  }
}
