/* `mpirun --mca coll gpuar`: an include list makes Open MPI drop every component that it does not
 * name, and then communicators lack barrier, broadcast and the rest. While the components are being
 * registered, a list that names gpuar gets what MPI cannot do without: for gpuar alone everything
 * else that is installed, for gpuar and others just the components that complete a communicator. */
#include <string.h>

#include "coll_gpuar/component/coll_gpuar.h"

static bool names(char** list, const char* name) {
  for (; NULL != list && NULL != *list; ++list) {
    if (0 == strcmp(*list, name)) return true;
  }
  return false;
}

/* What to put in place of the selection; NULL if it may stay. To be freed. */
static char* completed(const char* selection) {
  if (NULL == selection || '\0' == selection[0] || '^' == selection[0]) return NULL;
  char** list = opal_argv_split(selection, ',');
  char* result = NULL;
  if (names(list, "gpuar")) {
    if (1 == opal_argv_count(list)) {
      result = strdup("");
    } else {
      static const char* const essential[] = {GPUAR_ESSENTIAL_COMPONENTS};
      bool added = false;
      for (size_t i = 0; i < sizeof essential / sizeof essential[0]; ++i) {
        if (names(list, essential[i])) continue;
        opal_argv_append_nosize(&list, essential[i]);
        added = true;
      }
      if (added) result = opal_argv_join(list, ',');
    }
  }
  opal_argv_free(list);
  return result;
}

static bool holds(opal_list_t* components, const mca_base_component_t* component) {
  mca_base_component_list_item_t* item;
  OPAL_LIST_FOREACH(item, components, mca_base_component_list_item_t) {
    if (0 == strcmp(item->cli_component->mca_component_name, component->mca_component_name)) {
      return true;
    }
  }
  return false;
}

static void move_all(opal_list_t* from, opal_list_t* to) {
  opal_list_item_t* item;
  while (NULL != (item = opal_list_remove_first(from))) opal_list_append(to, item);
}

/* Finds and registers again with the new selection. The framework is in the middle of its own list
 * here, so the items that it has keep their order and the new ones go behind them. */
static int register_again(mca_base_framework_t* framework) {
  opal_list_t known;
  OBJ_CONSTRUCT(&known, opal_list_t);
  move_all(&framework->framework_components, &known);
  const int rc = mca_base_framework_components_register(framework, MCA_BASE_REGISTER_DEFAULT);
  mca_base_component_list_item_t* item;
  mca_base_component_list_item_t* next;
  OPAL_LIST_FOREACH_SAFE(item, next, &framework->framework_components,
                         mca_base_component_list_item_t) {
    opal_list_remove_item(&framework->framework_components, &item->super);
    if (holds(&known, item->cli_component)) {
      OBJ_RELEASE(item);
    } else {
      opal_list_append(&known, &item->super);
    }
  }
  move_all(&known, &framework->framework_components);
  OBJ_DESTRUCT(&known);
  return rc;
}

int coll_gpuar_complete_include_list(void) {
  mca_base_framework_t* framework = &ompi_coll_base_framework;
  char* selection = completed(framework->framework_selection);
  if (NULL == selection) return OMPI_SUCCESS;
  const int variable = mca_base_var_find("ompi", "coll", NULL, NULL);
  int rc = variable;
  if (variable >= 0) {
    rc = mca_base_var_set_value(variable, selection, strlen(selection) + 1, MCA_BASE_VAR_SOURCE_SET,
                                NULL);
  }
  free(selection);
  return OPAL_SUCCESS == rc ? register_again(framework) : rc;
}
