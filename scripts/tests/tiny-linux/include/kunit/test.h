#define KUNIT_ARRAY_PARAM_DESC(name, array, desc_member)
