#define SDTL_INIT(maskfn, flagsfn, dname) { }
