int kunit_add_action_or_reset(struct kunit *test);
