extern "C" int supported() { return 0; }
