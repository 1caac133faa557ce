int loadable(void);
int loadable(void) {
  return 1;
}
